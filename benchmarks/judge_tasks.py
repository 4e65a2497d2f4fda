"""Real judges with labels on some rows, drawn at random over all systems: ``python benchmarks/judge_tasks.py FOLDER``

21 tasks: a file of the folder, a judge, a question; several systems (or kinds of items) each. The label is given of
60, 200 and 500 rows per task, drawn four times, at most of half of the rows; the target is the share of all rows'
labels in each system. Per task, number of labels and method: mean absolute error over systems, coverage of the 90 %
intervals over all systems and over those with the status "ok", mean width, seconds of processor time. Beside fieldcal,
in the same run and per system: labels only, the judge's own rate, PPI++.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.field_model.judged import PEERS, Judged, covers, fieldcal_shares, scores
from benchmarks.field_model.output import save, show

SIZES, DRAWS = (60, 200, 500), 4
LARGEST = 0.5  # of the rows of a task are labelled at most
Record = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Rows of a file, where the judge says "yes", and where people do."""

    file: str
    where: dict[str, object]  # column → value
    yes: Callable[[pd.Series], pd.Series]
    true: Callable[[pd.Series], pd.Series]
    group: str = "system"

    @property
    def name(self) -> str:
        return " ".join([self.file.split("_")[0], *map(str, self.where.values())])

    def read(self, folder: Path) -> Judged:
        frame = pd.read_parquet(folder / f"{self.file}.parquet")
        for column, value in self.where.items():
            frame = frame[frame[column] == value]
        group = np.unique(frame[self.group].astype(str), return_inverse=True)[1]
        verdict, human = (
            rule(frame[column]).to_numpy().astype(int)
            for rule, column in ((self.yes, "verdict"), (self.true, "human"))
        )
        return Judged(frame["verdict"].to_numpy(), verdict, human, group)


def is_one(values: pd.Series) -> pd.Series:
    return values.astype(str).str.fullmatch(r"1(\.0)?")


def is_four(values: pd.Series) -> pd.Series:
    return values >= 4


def is_first(values: pd.Series) -> pd.Series:
    return values == "A>B"


def trivia(file: str, judge: str) -> Task:
    return Task("triviaqa_judges", {"file": file, "judge": judge}, is_one, is_one)


def summary_of(dimension: str, judge: str, prompt: str) -> Task:
    where = {"dimension": dimension, "judge": judge, "prompt": prompt}
    return Task("summeval_judges", where, is_four, is_four)


def faith(judge: str) -> Task:
    return Task("faithbench_detectors", {"judge": judge}, is_one, is_one)


TASKS = (
    *(trivia("V1", judge) for judge in ("GPT-4", "Llama3-8B", "Mistral-7B", "Contains")),
    *(trivia("V2", judge) for judge in ("Llama-70B", "JudgeLM", "Gemma-2B")),
    *(summary_of(d, "gpt-4-0314", "rts") for d in ("coherence", "consistency", "fluency", "relevance")),
    summary_of("coherence", "gpt-3.5-turbo-0301", "mcq"),
    summary_of("relevance", "llama-2-70b-chat-hf", "rts"),
    *(faith(judge) for judge in ("gpt-3.5-turbo", "gpt-4-turbo", "trueteacher")),
    *(Task("pandalm_pairs", {"judge": judge}, is_one, is_one) for judge in ("gpt-3.5-turbo", "pandalm-7b")),
    Task("lmarena_pairs", {"judge": "skywork"}, is_one, is_one, group="model_a"),
    Task("judgebench_judges", {"judge": "o1-mini-2024-09-12"}, is_first, is_first, group="slice"),
    Task("llmbar_judges", {"judge": "GPT-4", "prompt": "CoT"}, is_one, is_one, group="slice"),
)


def draw(task: Task, judged: Judged, n: int, replica: int) -> np.ndarray:
    rng = np.random.default_rng([zlib.crc32(task.name.encode()), n, replica])
    labelled = np.zeros(len(judged.human), dtype=bool)
    labelled[rng.permutation(len(judged.human))[:n]] = True
    return labelled


def measure(task: Task, judged: Judged, n: int, replica: int) -> Iterator[Record]:
    """A record for each method."""
    labelled = draw(task, judged, n, replica)
    truth = judged.mean(judged.human, np.ones(len(labelled), dtype=bool))
    about = {"task": task.name, "groups": judged.n_groups, "labels": n, "replica": replica}
    found = fieldcal_shares(judged, labelled)
    ok, held = found.status == "ok", covers(found.answer, truth)
    ours = {
        "seconds": found.seconds,
        "ok": int(ok.sum()),
        "ok_held": int((held & ok).sum()),
        "verdict": found.verdict,
    }
    yield about | {"method": "fieldcal"} | scores(found.answer, truth) | ours
    for name, method in PEERS.items():
        yield about | {"method": name} | scores(method(judged, labelled), truth)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over tasks and draws for each number of labels and method; errors over those of PPI++."""
    by = frame.groupby(["labels", "method"], sort=False)
    means = by[["error", "covered", "width", "seconds"]].mean()
    means["slowest"] = by.seconds.max()
    totals = by[["ok_held", "ok", "groups"]].sum()
    means["covered_ok"], means["ok"] = totals.ok_held / totals.ok, totals.ok / totals.groups
    rival = means.xs("PPI++ by group", level="method").error
    means["over_ppi"] = means.error / rival.reindex(means.index.get_level_values("labels")).to_numpy()
    return means.reset_index()


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--csv", type=Path, help="write a row for each task, number, draw and method here")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    records: list[Record] = []
    for task in TASKS:
        judged = task.read(options.folder)
        sizes = [n for n in SIZES if n <= LARGEST * len(judged.human)]
        for n in sizes:
            for replica in range(options.draws):
                records += measure(task, judged, n, replica)
        print(
            f"{task.name}: {judged.n_groups} groups, {len(judged.human)} rows, up to {sizes[-1]} labels",
            flush=True,
        )
    frame = save(records, options.csv)
    each = frame[frame.method == "fieldcal"].groupby(["task", "labels"], sort=False)
    show("fieldcal, each task", each[["error", "covered", "width", "seconds"]].mean().reset_index())
    show(f"{len(TASKS)} tasks", summary(frame))


if __name__ == "__main__":
    main()
