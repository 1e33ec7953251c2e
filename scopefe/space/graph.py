"""The graph of a run: steps with keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

STEP_VERSION = "1"


@dataclass(frozen=True)
class Step:
    """A node of the graph.

    Parameters
    ----------
    name
        What the step is called.
    component
        The component that carries it out.
    parameters
        Validated parameters, JSON values.
    key
        Hash of component, code version, parameters, the keys of the inputs and what data is read.
    """

    name: str
    component: str
    parameters: Mapping[str, Any]
    key: str


class Graph:
    """Steps and what they read, a directed acyclic graph."""

    def __init__(self) -> None:
        self.nx: nx.DiGraph[str] = nx.DiGraph()

    def add(
        self,
        name: str,
        component: str,
        inputs: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        version: str = STEP_VERSION,
        reads: str = "",
    ) -> str:
        """Add a step and return its name.

        Parameters
        ----------
        inputs
            Names of the steps it reads, already in the graph.
        version
            Version of the component's code.
        reads
            Fingerprint of data it reads besides its inputs.
        """
        content = [component, version, dict(parameters or {}), [self[i].key for i in inputs], reads]
        step = Step(name, component, dict(parameters or {}), key_of(content))
        self.nx.add_node(name, step=step)
        self.nx.add_edges_from((i, name) for i in inputs)
        return name

    def __getitem__(self, name: str) -> Step:
        step: Step = self.nx.nodes[name]["step"]
        return step

    def __contains__(self, name: str) -> bool:
        return name in self.nx

    def __iter__(self) -> Any:
        return (self[name] for name in nx.lexicographical_topological_sort(self.nx, key=self._place))

    def _place(self, name: str) -> int:
        return list(self.nx.nodes).index(name)

    def inputs(self, name: str) -> list[str]:
        """Return the names of the steps a step reads."""
        return list(self.nx.predecessors(name))


def key_of(content: Any) -> str:
    """Return the hash of JSON values."""
    return hashlib.blake2b(
        json.dumps(content, sort_keys=True, ensure_ascii=False, default=str).encode(), digest_size=16
    ).hexdigest()
