"""Audits as models of MLflow, `rue.mlflow`: logged with the model's own file, and read again as data.

No code is in such a model: the model is a file that `rue.open_model` reads, the audit one that `rue.load` reads.
"""

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rue.auditing.auditor import Auditor
from rue.auditing.result import Audit
from rue.auditing.said import said
from rue.auditing.storage import KeptRows, load
from rue.core.errors import DataError, InputError, ModelError, NumericalError, SettingError, WriteError
from rue.core.files import write_whole
from rue.core.model import Model
from rue.core.schema import is_frame
from rue.models import open_model, wrap
from rue.models.model_file import CODE, READERS
from rue.policy import Policy
from rue.policy.decision import TIERS
from rue.reports.document import Report, report

if TYPE_CHECKING:
    import pandas as pd

FLAVOUR, MODULE = "rue", "rue.mlflow"
AUDIT, POLICY, FOLDER = "audit.rue", "policy.rue", "model"
LEVEL = 0.9  # of the intervals that a loaded model returns
MISSING = "MLflow is missing: pip install mlflow, or mlflow-skinny"


class LoggedAudit(NamedTuple):
    """What a model of this flavour holds."""

    auditor: Auditor
    policy: Policy | None


def save_model(
    auditor: Auditor,
    path: str | Path,
    *,
    model_file: str | Path,
    loss: str | None = None,
    l2: float | None = None,
    reduction: str | None = None,
    policy: Policy | None = None,
    rows: KeptRows = "ids",
    mlflow_model: Any = None,
) -> None:
    """Write an audit, and the file of the model that it is of, as a model of MLflow in a folder.

    `model_file` is one that is read as data (see `rue.open_model`). Of a network, `loss`, `l2` and `reduction` are said
    in words, as to `rue.wrap`. `rows` says what is kept of the training rows, as for `auditor.save`.
    """
    mlflow = _mlflow()
    source, folder = Path(model_file), Path(path)
    stated = {"loss": loss, "l2": l2, "reduction": reduction}
    _check(auditor, source, stated, policy)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WriteError(f"{folder} is there already", "give a folder that is not, or an empty one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rue-", dir=folder.parent) as aside:  # nothing is left of what fails
        draft = Path(aside) / "draft"
        (draft / FOLDER).mkdir(parents=True)
        copied = f"{FOLDER}/{source.name}"
        copyfile(source, draft / copied)
        auditor.save(draft / AUDIT, rows=rows)
        load(draft / AUDIT, _wrapped(draft / copied, stated))  # refuses a file of another model, or said otherwise
        if policy is not None:
            policy.save(draft / POLICY)
        made = mlflow.models.Model() if mlflow_model is None else mlflow_model
        made.add_flavor(FLAVOUR, rue_version=version("rue"), model=copied, stated=stated)
        mlflow.pyfunc.add_to_model(made, loader_module=MODULE)
        made.save(str(draft / "MLmodel"))
        write_whole({draft / "requirements.txt": b"rue\n"})
        draft.replace(folder)


def _check(auditor: Auditor, source: Path, stated: dict[str, Any], policy: Policy | None) -> None:
    """Refuse what cannot be logged before anything is written."""
    if not isinstance(auditor, Auditor):
        raise InputError(f"got a {type(auditor).__name__}, expected a fitted auditor: method.fit(model, data)")
    if source.suffix.lower() in CODE or source.suffix.lower() not in READERS:
        data = ", ".join(ending for ending in READERS if ending not in CODE)
        raise ModelError(f"{source} is no model file that is read as data; write the model as one of {data}")
    if not source.is_file():
        raise ModelError(f"there is no file {source}; give the file of the audited model")
    wrong = [name for name, said_of in stated.items() if not isinstance(said_of, str | int | float | None)]
    if wrong:
        raise SettingError(f'{" and ".join(wrong)} cannot be written in words; say loss="MSELoss" and the like')
    if policy is None:
        return
    if not isinstance(policy, Policy):
        raise InputError(f"got a {type(policy).__name__} for the policy, expected a rue.Policy")
    if policy.auditor and policy.auditor != auditor.facts.get("auditor"):
        raise InputError("this policy was chosen by the scores of another auditor; choose one by this auditor's")


def log_model(auditor: Auditor, name: str = "audit", *, model_file: str | Path, **settings: Any) -> Any:
    """Log an audit as a model of MLflow, in the active run; settings are those of `save_model`."""
    import rue.reports.mlflow_flavour as flavour

    return _mlflow().models.Model.log(None, flavour, name=name, auditor=auditor, model_file=model_file, **settings)


def load_model(uri: str | Path) -> LoggedAudit:
    """The audit, and the policy if there is one, at a path or URI of MLflow."""
    mlflow = _mlflow()
    place = Path(str(uri))
    folder = place if place.is_dir() else Path(mlflow.artifacts.download_artifacts(str(uri)))
    flavours = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOUR not in flavours:
        raise InputError(f"{uri} is no audit of rue; it has the flavours {', '.join(flavours) or 'none'}")
    said_of = flavours[FLAVOUR]
    try:
        model, stated = Path(str(said_of["model"])), dict(said_of["stated"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{uri} does not say what model it is of; log it again") from error
    if not (folder / model).resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{uri} names a model outside of it, {str(model)!r}; log it again")
    auditor = load(folder / AUDIT, _wrapped(folder / model, stated))
    policy = Policy.load(folder / POLICY) if (folder / POLICY).exists() else None
    return LoggedAudit(auditor, policy)


def log_report(
    auditor: Auditor, inputs: Any, targets: Any = None, *, policy: Policy | None = None, **settings: Any
) -> Report:
    """Log the report of these rows in the active run, as page and JSON, and its numbers as metrics.

    Other settings are those of `rue.report`.
    """
    mlflow = _mlflow()
    made = report(auditor, inputs, targets, policy=policy, **settings)
    mlflow.log_text(made.html(), "rue/audit.html")
    mlflow.log_text(made.json(), "rue/audit.json")
    mlflow.log_metrics(metrics(auditor.audit(inputs), targets, policy))
    return made


def metrics(audit: Audit, targets: Any = None, policy: Policy | None = None) -> dict[str, float]:
    """Numbers to watch over time: of the scores, of the tiers, and of the errors where targets are known."""
    found = {
        "rue.rows": float(len(audit)),
        "rue.score_mean": float(audit.score.mean()),
        "rue.score_median": float(np.median(audit.score)),
        "rue.score_90": float(np.quantile(audit.score, 0.9)),
    }
    if audit.scarce is not None:
        found["rue.share_scarce"] = float(audit.scarce.mean())
    if policy is not None:
        tier = policy.decide(audit).tier
        found |= {f"rue.share_{name}": float((tier == name).mean()) for name in TIERS}
    if targets is not None:
        with suppress(NumericalError):  # a singular covariance has no density
            found["rue.log_prob_mean"] = float(audit.log_prob(targets).mean())
        if audit.classification is None and audit.total_std is not None:
            low, high, _ = audit.interval(LEVEL)
            errors = audit.errors(targets)
            inside = (np.asarray(targets).reshape(low.shape) >= low) & (np.asarray(targets).reshape(low.shape) <= high)
            found |= {"rue.rmse": float(np.sqrt((errors**2).mean())), "rue.coverage_90": float(inside.mean())}
    return found


def _load_pyfunc(path: str) -> "PredictedAudit":
    """What `mlflow.pyfunc.load_model` calls."""
    folder = Path(path)
    return PredictedAudit(*load_model(folder if folder.is_dir() else folder.parent))


class PredictedAudit:
    """A model as MLflow's generic interface has them: frames in, frames of what the audit says out."""

    def __init__(self, auditor: Auditor, policy: Policy | None):
        self.auditor, self.policy = auditor, policy

    def predict(self, model_input: Any, params: Any = None) -> "pd.DataFrame":  # noqa: ARG002  MLflow's names
        """One row for each, with the columns of `rue.batches`, and the tier where there is a policy."""
        import pandas as pd

        schema = self.auditor.model.schema
        if schema is not None and is_frame(model_input) and set(schema.names) <= set(model_input.columns):
            model_input = model_input[list(schema.names)]  # ids and the like go along in production
        audit = self.auditor.audit(model_input)
        columns, _ = said(audit, LEVEL)
        if self.policy is not None:
            columns["tier"] = self.policy.decide(audit).tier
        return pd.DataFrame(columns, index=audit.index)


def _wrapped(file: Path, stated: dict[str, Any]) -> Model:
    said_of = {name: stated.get(name) for name in ("loss", "l2", "reduction")}
    return wrap(open_model(file), **said_of)


def _mlflow() -> Any:
    try:
        import mlflow.models
        import mlflow.pyfunc
    except ImportError as error:
        raise InputError(MISSING) from error
    return mlflow


__all__ = ["LoggedAudit", "load_model", "log_model", "log_report", "metrics", "save_model"]
