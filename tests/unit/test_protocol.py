"""The protocol: which values a setting takes, what it refuses, and what its fingerprint is made of."""

from __future__ import annotations

import dataclasses
import json
import pickle
from enum import StrEnum
from hashlib import sha256
from typing import Any

import pytest

from recallk_spark.errors import ProtocolError
from recallk_spark.protocol import Protocol

# the tables of the specification, the default first
VALUES = {
    "score_order": ("desc", "asc"),
    "score_precision": ("native", "float32"),
    "tie_break": ("item_asc", "item_desc", "rank"),
    "duplicates": ("occupy", "collapse", "error"),
    "duplicate_relevance": ("max", "error"),
    "invalid_scores": ("error", "drop", "last"),
    "short_lists": ("allow", "error"),
    "no_relevant": ("exclude", "zero", "one", "error"),
    "missing_queries": ("zero", "exclude", "error"),
    "unjudged_queries": ("ignore", "error"),
    "gain": ("linear", "exponential"),
}
DECLARED = ("candidates", "relevance_source", "judgment_completeness")
CHANGE_NO_NUMBER = ("short_lists", "unjudged_queries")  # they only refuse

EVERY_VALUE = [(name, value) for name, values in VALUES.items() for value in values]
NOT_DEFAULT = [(name, value) for name, values in VALUES.items() for value in values[1:]]


# values


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_takes_the_values_of_the_specification_and_no_other_and_starts_at_the_first(name: str) -> None:
    default = getattr(Protocol(), name)
    assert isinstance(default, StrEnum)
    assert [member.value for member in type(default)] == list(VALUES[name])
    assert default == VALUES[name][0]


@pytest.mark.parametrize(("name", "value"), EVERY_VALUE)
def test_a_value_is_given_as_string_or_as_member(name: str, value: str) -> None:
    by_string = Protocol(**{name: value})
    member = getattr(by_string, name)
    assert isinstance(member, StrEnum)
    assert member.value == value
    assert Protocol(**{name: member}) == by_string
    assert Protocol.from_settings({name: value}) == by_string


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("tie_break", "item_dsc", "did you mean 'item_desc'"),
        ("tie_break", "ITEM_ASC", "known: item_asc, item_desc, rank"),
        ("duplicates", "collapsed", "did you mean 'collapse'"),
        ("no_relevant", "skip", "known: error, exclude, one, zero"),
        ("missing_queries", None, "known: error, exclude, zero"),
        ("gain", True, "known: exponential, linear"),
        ("score_order", 1, "known: asc, desc"),
        ("invalid_scores", "", "known: drop, error, last"),
        ("unjudged_queries", "exclude", "known: error, ignore"),
        ("short_lists", ["allow"], "allow"),
    ],
)
def test_an_unknown_value_is_refused_with_the_nearest_known_one(name: str, value: Any, hint: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{name}: unknown value .*({hint})"):
        Protocol(**{name: value})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tie_brake", "; did you mean 'tie_break'"),
        ("cutoff", "; did you mean 'cutoffs'"),
        ("TIE_BREAK", "; known: candidates, cutoffs, depth, "),
        ("preset", "; "),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_known_one(name: str, hint: str) -> None:
    with pytest.raises(ProtocolError, match=f"unknown protocol setting '{name}'({hint})"):
        Protocol.from_settings({"depth": 100, name: "rank"})


@pytest.mark.parametrize("name", DECLARED)
def test_declarations_are_free_text_and_nothing_else(name: str) -> None:
    assert getattr(Protocol(), name) == ""
    assert getattr(Protocol(**{name: "top 1,000 of BM25 – „alle“"}), name) == "top 1,000 of BM25 – „alle“"
    with pytest.raises(ProtocolError, match=f"{name} is free text, not 3"):
        Protocol(**{name: 3})


# cutoffs and depth


def test_cutoffs_start_at_the_specifications() -> None:
    assert Protocol().cutoffs == (1, 5, 10, 20, 50, 100)
    assert Protocol().depth == 100


@pytest.mark.parametrize("given", [[10, 1, 5, 1, 10], (5, 10, 1), {1, 5, 10}, iter([10, 5, 1, 1])])
def test_cutoffs_merge_and_sort(given: Any) -> None:
    protocol = Protocol(cutoffs=given)
    assert protocol.cutoffs == (1, 5, 10)
    assert protocol.max_cutoff == 10
    assert protocol.depth == 10


@pytest.mark.parametrize("given", [(), "1,5", b"15", 5, None, (0,), (-1, 5), (1.0,), (True,), ("5",), (1, None)])
def test_cutoffs_are_positive_integers(given: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^cutoffs: "):
        Protocol(cutoffs=given)


@pytest.mark.parametrize(("given", "depth"), [({}, 20), ({"depth": 20}, 20), ({"depth": 10_000}, 10_000)])
def test_depth_is_the_largest_cutoff_unless_it_is_given(given: dict[str, int], depth: int) -> None:
    assert Protocol(cutoffs=(20, 5), **given).depth == depth


@pytest.mark.parametrize("depth", [1, 19])
def test_a_depth_below_the_largest_cutoff_is_refused(depth: int) -> None:
    with pytest.raises(ProtocolError, match=f"depth {depth} is smaller than the largest cutoff 20"):
        Protocol(cutoffs=(5, 20), depth=depth)


@pytest.mark.parametrize("depth", [10_001, -1, 100.0, "100", True, False])
def test_a_depth_is_an_integer_up_to_ten_thousand(depth: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^depth: an integer from 1 to 10000, not"):
        Protocol(cutoffs=(1,), depth=depth)


def test_a_cutoff_beyond_the_greatest_depth_is_refused() -> None:
    assert Protocol(cutoffs=(10_000,)).depth == 10_000
    with pytest.raises(ProtocolError, match="cutoffs: 10001 is beyond the greatest depth, 10000"):
        Protocol(cutoffs=(1, 10_001))


@pytest.mark.parametrize("grade", [1, 1.0, 2, 0.5, 1e-9, 60])
def test_min_grade_is_a_number_above_zero(grade: float) -> None:
    protocol = Protocol(min_grade=grade)
    assert protocol.min_grade == grade
    assert isinstance(protocol.min_grade, float)


@pytest.mark.parametrize(
    "grade", [0, -1, 0.0, -0.0, float("nan"), float("inf"), True, "1", None, 10**400], ids=lambda grade: str(grade)[:9]
)
def test_a_min_grade_that_is_no_finite_number_above_zero_is_refused(grade: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^min_grade: a number > 0, not"):
        Protocol(min_grade=grade)


@pytest.mark.parametrize("grades", [(1, 0.5, 2), [2, 0.5, 1, 2.0], {1, 2, 0.5}, iter((0.5, 1, 2))], ids=repr)
def test_several_min_grades_are_kept_ascending_and_once(grades: Any) -> None:
    protocol = Protocol(min_grade=grades)
    assert protocol.min_grade == protocol.min_grades == (0.5, 1.0, 2.0)
    assert all(isinstance(grade, float) for grade in protocol.min_grades)


@pytest.mark.parametrize("grades", [2, 2.0, [2], (2, 2.0)])
def test_one_min_grade_is_a_number_however_it_is_given(grades: Any) -> None:
    protocol = Protocol(min_grade=grades)
    assert protocol == Protocol(min_grade=2)
    assert isinstance(protocol.min_grade, float)
    assert protocol.min_grades == (2.0,)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "1", None, [1], 10**400], ids=repr)
def test_each_of_several_min_grades_is_a_finite_number_above_zero(bad: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^min_grade: a number > 0, not"):
        Protocol(min_grade=[1, bad])


def test_no_min_grade_at_all_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"^min_grade: at least one is needed$"):
        Protocol(min_grade=[])


# the fingerprint


def test_the_fingerprint_of_the_default_protocol_never_changes() -> None:
    # printf '{"version":1}' | sha256sum
    assert Protocol().fingerprint == "2430f1a2ad2982d0067885488a4c89e21ad1d7c83b115ba8f1b20acc88dfaea8"


def test_the_fingerprint_is_the_hash_of_the_version_and_the_settings_that_differ_in_canonical_json() -> None:
    canonical = (
        '{"duplicate_relevance":"error","duplicates":"error","no_relevant":"zero",'
        '"score_precision":"float32","tie_break":"item_desc","version":1}'
    )
    protocol = Protocol.from_settings({}, preset="trec_eval9")
    assert protocol.fingerprint == sha256(canonical.encode()).hexdigest()


def test_every_setting_that_changes_a_number_changes_the_fingerprint() -> None:
    changing = [(name, value) for name, value in NOT_DEFAULT if name not in CHANGE_NO_NUMBER]
    fingerprints = {pair: Protocol(**{pair[0]: pair[1]}).fingerprint for pair in changing}
    assert len(changing) == 15
    assert len({Protocol().fingerprint, *fingerprints.values()}) == 1 + len(changing), fingerprints


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cutoffs", (3, 7)),
        ("depth", 5_000),
        ("min_grade", 2),
        ("min_grade", (1, 2)),
        ("short_lists", "error"),
        ("unjudged_queries", "error"),
        ("candidates", "the catalogue"),
        ("relevance_source", "clicks"),
        ("judgment_completeness", "pooled at 100"),
    ],
)
def test_a_setting_that_changes_no_number_leaves_the_fingerprint_alone(name: str, value: Any) -> None:
    for base in ({}, {"tie_break": "item_desc"}):
        changed = Protocol(**base, **{name: value})
        assert changed != Protocol(**base)
        assert changed.fingerprint == Protocol(**base).fingerprint


def test_a_default_that_is_written_out_leaves_the_fingerprint_alone() -> None:
    assert Protocol(**{name: values[0] for name, values in VALUES.items()}).fingerprint == Protocol().fingerprint


def test_differing_names_what_the_fingerprint_is_made_of() -> None:
    protocol = Protocol(tie_break="rank", gain="exponential", min_grade=3, depth=200, candidates="all")
    assert protocol.differing() == {"tie_break": "rank", "gain": "exponential"}
    assert Protocol().differing() == {}


# presets


TREC_EVAL = {
    "tie_break": "item_desc",
    "no_relevant": "zero",
    "missing_queries": "zero",
    "duplicates": "error",
    "duplicate_relevance": "error",
    "gain": "linear",
}


@pytest.mark.parametrize(
    ("preset", "settings"), [("trec_eval", TREC_EVAL), ("trec_eval9", {**TREC_EVAL, "score_precision": "float32"})]
)
def test_a_preset_is_exactly_the_settings_of_the_specification(preset: str, settings: dict[str, str]) -> None:
    by_preset = Protocol.from_settings({}, preset=preset)
    assert by_preset == Protocol(**settings)
    assert by_preset.settings() == {**Protocol().settings(), **settings}


def test_a_setting_wins_over_the_preset() -> None:
    protocol = Protocol.from_settings({"duplicates": "occupy", "cutoffs": [3]}, preset="trec_eval")
    assert protocol == Protocol(**{**TREC_EVAL, "duplicates": "occupy"}, cutoffs=(3,))


def test_an_unknown_preset_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ProtocolError, match="preset: unknown value 'trec_eval8'; did you mean 'trec_eval"):
        Protocol.from_settings({}, preset="trec_eval8")


# a value


def test_protocols_are_equal_when_their_settings_are() -> None:
    one = Protocol(cutoffs=[10, 1], min_grade=1, tie_break="item_desc")
    same = Protocol(cutoffs=(1, 10, 10), depth=10, min_grade=1.0, tie_break=one.tie_break)
    assert one == same
    assert len({one, same, Protocol()}) == 2
    assert {one: "found"}[same] == "found"


@pytest.mark.parametrize(
    ("name", "value"), [("cutoffs", (3,)), ("depth", 101), ("min_grade", 2), ("candidates", "all"), *NOT_DEFAULT]
)
def test_protocols_differ_when_one_setting_does(name: str, value: Any) -> None:
    assert Protocol(**{name: value}) != Protocol()


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Protocol)])
def test_a_protocol_cannot_be_changed(name: str) -> None:
    protocol = Protocol()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(protocol, name, getattr(protocol, name))
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(protocol, name)


def test_settings_go_through_json_and_back() -> None:
    protocol = Protocol(cutoffs=(3, 7), depth=9, min_grade=0.5, tie_break="rank", candidates="„alle“")
    as_json = json.dumps(protocol.settings())
    assert Protocol.from_settings(json.loads(as_json)) == protocol
    assert pickle.loads(pickle.dumps(protocol)) == protocol
    several = Protocol(min_grade=(0.5, 1, 2))
    assert several.settings()["min_grade"] == [0.5, 1, 2]
    assert json.dumps(several.settings()["min_grade"]) == "[0.5, 1, 2]"
    assert Protocol.from_settings(json.loads(json.dumps(several.settings()))) == several


def test_every_setting_has_its_plain_value_under_its_name() -> None:
    assert Protocol().settings() == {
        "cutoffs": [1, 5, 10, 20, 50, 100],
        "depth": 100,
        "min_grade": 1,
        **{name: values[0] for name, values in VALUES.items()},
        **dict.fromkeys(DECLARED, ""),
    }


def test_the_printed_protocol_names_what_is_not_the_default() -> None:
    assert str(Protocol()) == "grade>=1 depth=100 (other settings: default)"
    printed = str(Protocol(cutoffs=(5,), min_grade=0.5, tie_break="rank", short_lists="error", candidates="all"))
    assert printed == "grade>=0.5 depth=5 tie_break=rank short_lists=error candidates=all"


def test_the_printed_protocol_names_every_min_grade() -> None:
    assert str(Protocol(min_grade=(3, 1, 1.5))).startswith("grade>=1,1.5,3 depth=100")


def test_a_depth_of_zero_is_refused() -> None:
    with pytest.raises(ProtocolError, match="depth"):
        Protocol(depth=0)
