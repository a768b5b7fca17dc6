// Starts the parts of the page, and sees to colours, scrolling boxes and the navigation.

// A box that scrolls can be reached by keyboard; one that does not is no stop on the way.
function settleScrollers() {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function startTheme() {
  const button = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name = () => (button.textContent = dark() ? "Light colours" : "Dark colours");
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
  button.hidden = false;
}

function startNavigation() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const id of links.keys()) observer.observe(byId(id));
}

document.documentElement.classList.add("scripted");
startTheme();
startTable((row) => openCard(row));
startReadouts();
startNavigation();
startCard();
settleScrollers();
window.addEventListener("resize", settleScrollers);
document.documentElement.dataset.ready = "true";
