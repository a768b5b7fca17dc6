"""Build wheel and sdist, install each into an empty environment, and audit a model there.

Run by `make package` (part of `make check`). Dependencies come with the same constraints as everywhere.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent

AUDIT = """
import torch, rue
net, X = torch.nn.Linear(2, 1), torch.randn(9, 2)
audit = rue.audit(net, train=(X, X[:, 0]), inputs=X, loss="squared_error", l2=1.0)
assert audit.score.shape == (9,)
assert "site-packages" in rue.__file__, rue.__file__
auditor = rue.LinearRUE().fit(rue.wrap(net, loss="squared_error", l2=1.0), (X, X[:, 0]))
assert "</html>" in rue.report(auditor, X, baselines=False).html()  # the page's own files came along
import pathlib
assert pathlib.Path(rue.__file__).with_name("py.typed").exists()
"""


def run(*command: object, quiet: bool = True) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL if quiet else None)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out, home = Path(folder, "dist"), Path(folder, "empty")
        run(sys.executable, "-m", "build", "--outdir", out)
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"
        (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        for archive in (wheel, sdist):
            run(*pip, archive)
            run(python, "-I", "-c", AUDIT)
            run(home / "bin" / "rue", "version", quiet=False)
            run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "rue")
    print("wheel and sdist install and audit in an empty environment")


if __name__ == "__main__":
    main()
