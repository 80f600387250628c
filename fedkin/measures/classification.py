"""Classification metrics: accuracy, balanced accuracy, F1, AUROC and calibration error.

Shapes: n samples, C classes.

Balanced accuracy, F1 and AUROC use scikit-learn. Expected calibration error: C. Guo, G. Pleiss, Y.
Sun, K. Q. Weinberger: On Calibration of Modern Neural Networks. ICML 2017, eq. 3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import ModelError

CALIBRATION_BINS = 15  # M in Guo et al.
MEASURES = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "ece")


def classification_measures(
    y: Int[np.ndarray, "n"],
    probability: Float[np.ndarray, "n C"],
    predicted: Int[np.ndarray, "n"] | None = None,
) -> dict[str, float]:
    """Accuracy, balanced accuracy, macro F1, AUROC and expected calibration error; NaN if
    undefined.

    Args:
        y: true labels.
        probability: probability of each class.
        predicted: predicted classes; None: the first class with the highest probability.

    Raises:
        ModelError: probabilities are NaN or infinite.
    """
    if not len(y):
        return dict.fromkeys(MEASURES, np.nan)
    broken = np.flatnonzero(~np.isfinite(probability).all(axis=1))
    if len(broken):
        raise ModelError(
            f"the probabilities of {len(broken)} samples are NaN or infinite, such as sample "
            f"{broken[0]}; the training may have diverged"
        )
    chosen = probability.argmax(axis=1) if predicted is None else predicted
    correct = chosen == y
    confidence = probability[np.arange(len(y)), chosen]
    return {
        "accuracy": float(correct.mean()),
        "balanced_accuracy": balanced_accuracy(y, chosen),
        "macro_f1": macro_f1(y, chosen),
        "auroc": one_vs_rest_auroc(y, probability),
        "ece": expected_calibration_error(confidence, correct),
    }


def balanced_accuracy(y: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"]) -> float:
    """Balanced accuracy: the mean recall of the classes that occur in the labels."""
    from sklearn.metrics import recall_score

    recall = recall_score(
        y,
        predicted,
        labels=np.unique(y),
        average="macro",
        zero_division=0,  # type: ignore[arg-type]
    )
    return float(recall)


def macro_f1(y: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"]) -> float:
    """Macro F1: the mean F1 of the classes that occur in labels or predictions."""
    from sklearn.metrics import f1_score

    return float(f1_score(y, predicted, average="macro", zero_division=0))  # type: ignore[arg-type]


def one_vs_rest_auroc(y: Int[np.ndarray, "n"], probability: Float[np.ndarray, "n C"]) -> float:
    """Mean one-vs-rest area under the ROC curve; NaN if all labels are equal.

    The mean is over classes with both positive and negative samples.
    """
    from sklearn.metrics import roc_auc_score

    present = np.unique(y)
    if len(present) < 2:
        return float("nan")
    return float(np.mean([roc_auc_score(y == c, probability[:, c]) for c in present]))


def expected_calibration_error(
    confidence: Float[np.ndarray, "n"], correct: Bool[np.ndarray, "n"], bins: int = CALIBRATION_BINS
) -> float:
    """Expected calibration error: sum_m |B_m| / n |acc(B_m) - conf(B_m)|, over M bins ((m-1)/M,
    m/M].

    NaN without samples.

    Args:
        confidence: probability of the predicted class, for each sample.
        correct: whether the prediction is correct, for each sample.
        bins: M, the number of bins.
    """
    if not len(confidence):
        return float("nan")
    m = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    # |B_m| (acc(B_m) - conf(B_m)) for each bin.
    gap = np.bincount(m, correct, bins) - np.bincount(m, confidence, bins)
    return float(np.abs(gap).sum() / len(confidence))
