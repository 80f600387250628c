"""Clustered federated learning with scikit-learn's interface: a classifier and a regressor."""

from __future__ import annotations

from fedkin.estimator.classifier import Clustered as Clustered
from fedkin.estimator.regressor import ClusteredRegressor as ClusteredRegressor
