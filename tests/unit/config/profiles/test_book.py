from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from pydantic import ValidationError

from serving.__main__ import EXIT_MISCONFIGURED, main
from serving.config.profiles import FieldError, ProfileBook
from serving.config.settings import load_settings
from serving.domain.ranking.leg_options import WalkOrder, WordsMode
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Rerank
from serving.domain.ranking.ranked_list import RankStyle
from serving.domain.ranking.reachability import faults

SHIPPED = ProfileBook.load()
KEPT = ProfileBook.load(Path(__file__).with_name("kept"))
"""A book with a profile `plain`, whose weights and depths are all equal."""
HYBRID = ("hybrid_recall", "hybrid_recall_reachable")
TWO_STAGES = ("two_stage", "two_stage_baseline")
REFERENCE_DESIGNS = {"annie", *HYBRID, "object_graph", "recollection", *TWO_STAGES}


def test_every_reference_design_is_shipped_as_a_profile() -> None:
    assert set(SHIPPED) >= {"default", *REFERENCE_DESIGNS}
    assert all(profile.description for profile in SHIPPED.values())
    assert not any(SHIPPED[name].fold_repeats for name in REFERENCE_DESIGNS)


def test_annie_has_pools_a_week_and_fresh_facts() -> None:
    annie = SHIPPED["annie"]

    depths = {leg.name: leg.depth_for(annie.limit) for leg in annie.legs}
    assert depths == {"lexical": 20, "dense": 10, "graph": 5}
    assert annie.leg("lexical").lookback == timedelta(hours=168)
    assert annie.leg("lexical").words.mode is WordsMode.ANY
    assert annie.decay == Decay(facts_are_fresh=True)


def test_recollection_ranks_a_pool_by_four_dense_lists() -> None:
    recollection = SHIPPED["recollection"]

    assert recollection.weights == {"lexical": 1.0, "dense": 1.0, "recency": 0.6, "access": 0.4}
    assert recollection.rank_style is RankStyle.DENSE
    assert recollection.leg("dense").leans_on == ("lexical",)
    assert recollection.importance == Importance(style=ImportanceStyle.BOOST, boost_from=0.8)


def test_profile_inherits_unset_fields() -> None:
    written, reachable = SHIPPED["hybrid_recall"], SHIPPED["hybrid_recall_reachable"]

    assert reachable.leg("lexical") == written.leg("lexical")
    assert reachable.leg("graph").depth == written.leg("graph").depth == 50
    assert (written.leg("graph").weight, reachable.leg("graph").weight) == (0.35, 1.0)
    assert SHIPPED["two_stage"].rerank == Rerank(head=50, weight=0.7)
    assert SHIPPED["two_stage_baseline"].rerank is None


def test_repair_of_unreachable_graph_is_reachable() -> None:
    written = SHIPPED["hybrid_recall"]
    undeclared = SHIPPED.changed("hybrid_recall", {"legs": {"graph": {"reorders": False}}})

    assert not faults(written)
    assert [leg for leg, _ in faults(undeclared)] == ["graph"]
    assert not SHIPPED["hybrid_recall_reachable"].leg("graph").reorders
    for walk in (SHIPPED[name].leg("graph").walk for name in HYBRID):
        assert (walk.seeds_from, walk.mentions) == (("lexical", "dense"), True)


@pytest.mark.parametrize(
    ("given", "floor"), [({}, 0.3), ({"floor": -1}, -1), ({"floor": 0.5}, 0.5)]
)
def test_sort_by_recency_has_a_floor_for_meaning(given: dict[str, Any], floor: float) -> None:
    change = {"sort": "recency", "legs": {"dense": given}}

    changed = SHIPPED.changed("hybrid_recall", change)

    assert changed.leg("dense").floor == floor
    assert changed.leg("lexical").floor is None
    assert SHIPPED["hybrid_recall"].leg("dense").floor is None


def test_objects_are_ordered_by_distance_from_the_dense_candidates() -> None:
    walk = SHIPPED["object_graph"].leg("graph").walk

    assert (walk.order, walk.seeds_from) == (WalkOrder.DISTANCE, ("dense",))
    assert walk.relations[:3] == ("calls", "imports", "defined_in")


WALK_FROM_DENSE = {"seeds_from": ["dense"]}
CYCLE = {"dense": {"pool": {"recently_accessed": 9, "joined_by": ["graph"]}}}


@pytest.mark.parametrize(
    ("legs", "fault"),
    [
        ({"telepathy": {}}, "telepathy: unknown leg, must be one of lexical, "),
        ({"dense": {"depth": -1}}, "dense.depth"),
        ({"dense": {"depth": True}}, "dense.depth: must be a number, got True"),
        ({"dense": {"weight": "heavy"}}, "dense.weight"),
        ({"dense": {"weight": math.inf}}, "dense.weight"),
        ({"dense": {"colour": 1}}, "dense.colour"),
        ({"dense": {"floor": math.nan}}, "dense.floor"),
        ({"dense": {"least_score": -math.inf}}, "dense.least_score"),
        ({"dense": {"least_score": "-inf"}}, "dense.least_score: must be a number"),
        ({"dense": {"pool": {"recently_accessed": -1}}}, "dense.pool.recently_accessed"),
        ({"lexical": {"words": {"rank_gate": -1}}}, "lexical.words.rank_gate"),
        ({"lexical": {"lookback": "PT0S"}}, "lexical.lookback"),
        ({"lexical": {"lookback": 7}}, "lexical.lookback: must be an ISO 8601"),
        ({"graph": {"walk": {"hops": 3}}}, "graph.walk.hops"),
        ({"graph": {"walk": {"order": "distance", "mentions": True}}}, "graph.walk.mentions"),
        ({"graph": {"weight": 0.3}}, "graph: no hit of this leg alone can show"),
        ({"graph": {"weight": 9}}, "graph: this leg can fill the answer alone"),
        ({"graph": {"reserved": 11}}, "graph.reserved: is 11, but at most 10"),
        ({"graph": {"depth": 2, "reserved": 3}}, "graph.reserved: is 3, but at most 2"),
        ({"graph": {"weight": 0, "reserved": 1}}, "graph.reserved: the leg has weight 0"),
        ({"lexical": {"pool": {"recently_accessed": 9}}}, "lexical.pool: not supported"),
        ({"lexical": {"walk": {}}}, "lexical.walk: not supported by this leg"),
        ({"lexical": {"yields": "facts"}}, "lexical.yields: not supported"),
        ({"dense": {"words": {}}}, "dense.words: not supported"),
        ({"temporal": {"floor": 1}}, "temporal.floor: not supported"),
        (
            {"dense": {"pool": {"recently_accessed": 9, "joined_by": ["nobody"]}}},
            "dense.pool.joined_by: the profile has no other leg 'nobody'",
        ),
        (
            {"graph": {"walk": {"seeds_from": ["temporal"]}}},
            "graph.walk.seeds_from: the profile has no other leg 'temporal'",
        ),
        ({"graph": {"walk": {"seeds_from": ["graph"]}}}, "graph.walk.seeds_from"),
        (
            {"dense": {"weight": 0}, "graph": {"walk": WALK_FROM_DENSE}},
            "graph: depends on 'dense', which has weight 0",
        ),
    ],
    ids=str,
)
def test_a_bad_leg_is_refused_with_the_path_of_the_field(
    legs: Mapping[str, Any], fault: str
) -> None:
    assert fault_of({"legs": legs}).startswith(f"legs.{fault}")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"legs": {leg: {"weight": 0} for leg in KEPT["plain"].weights}}, "legs: must not"),
        ({"legs": {**CYCLE, "graph": {"walk": WALK_FROM_DENSE}}}, "legs: depend on each other in"),
        ({"importance": {"boost_from": "nan"}}, "importance.boost_from"),
        ({"importance": {"boost_from": 1.1}}, "importance.boost_from"),
        ({"decay": {"half_life": 30}}, "decay.half_life: must be an ISO 8601 duration"),
        ({"decay": {"half_life": "30"}}, "decay.half_life: must be an ISO 8601 dur"),
        ({"decay": {"half_life": "PT0S"}}, "decay.half_life"),
        ({"decay": {"floor": 2}}, "decay.floor"),
        ({"rerank": {"head": 1001}}, "rerank.head"),
        ({"rerank": {"weight": 1.5}}, "rerank.weight"),
        ({"rerank": {}, "sort": "importance"}, "rerank: is for relevance, and sort is importance"),
        ({"diversity": {}, "sort": "recency"}, "diversity: is for relevance, and sort is recency"),
        ({"diversity": {"trade_off": -0.1}}, "diversity.trade_off"),
        ({"signals": {"astrology": 1}}, "signals.astrology"),
        ({"signals": {"recency": 1}, "fusion": "score"}, "signals"),
        ({1: 2}, "1"),
        ({"rank_constant": 0}, "rank_constant"),
        ({"fold_repeats": 0.9}, "fold_repeats"),
        ({"limit": 0}, "limit"),
        ({"sort": "mood"}, "sort"),
        ({"extends": "nobody"}, "extends"),
        ({"extends": ["default"]}, "extends: no profile is called ['default']"),
        ({"extends": {}}, "extends: no profile is called {}"),
        ({"extends": "plain"}, "extends: forms a cycle: plain extends plain"),
    ],
    ids=str,
)
def test_a_bad_profile_is_refused_with_the_path_of_the_field(
    change: Mapping[Any, Any], fault: str
) -> None:
    assert fault_of(change).startswith(fault)


def fault_of(change: Mapping[Any, Any]) -> str:
    with pytest.raises(ValueError, match=r"profile 'plain': ") as refused:
        KEPT.reconfigured({"plain": change})
    return str(refused.value).removeprefix("profile 'plain': ")


def test_all_faults_are_reported_together() -> None:
    changes: dict[str, dict[str, Any]] = {
        "annie": {"limit": -1, "legs": {"dense": {"depth": "deep", "weight": float("nan")}}},
        "plain": {
            "legs": {"dense": {"depth": -1}, "graph": {"walk": {"hops": 3}}},
            "decay": {"floor": 2},
        },
        "facts": {"legs": {"graph": {"weight": 0.3}, "facts": {"weight": 0.3}}},
    }

    with pytest.raises(ValueError, match=r"^profile 'annie': ") as refused:
        KEPT.reconfigured(changes)

    assert [each.split(": ")[:2] for each in str(refused.value).split("; ")] == [
        ["profile 'annie'", "legs.dense.weight"],
        ["profile 'annie'", "legs.dense.depth"],
        ["profile 'facts'", "legs.facts"],
        ["profile 'facts'", "legs.graph"],
        ["profile 'plain'", "legs.dense.depth"],
        ["profile 'plain'", "legs.graph.walk.hops"],
        ["profile 'plain'", "decay.floor"],
    ]


def test_crowding_leg_is_reported_first_with_its_numbers() -> None:
    first, second, *_ = fault_of({"legs": {"graph": {"weight": 9}}}).split("; ")

    assert first.startswith("legs.graph: this leg can fill the answer alone")
    assert second.startswith("profile 'plain': legs.lexical: no hit of this leg alone can show")
    assert "20 candidates of other legs score more (20 of graph)" in second


def test_fault_is_not_reported_for_heirs() -> None:
    with pytest.raises(ValueError, match="rank_constant") as refused:
        SHIPPED.reconfigured({"two_stage_baseline": {"rank_constant": 0}})

    assert str(refused.value).count("rank_constant") == 1
    assert "'two_stage'" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        *(({name: {"extends": "default"}}, "a name must be text") for name in (1, False, None)),
        *((each, "must be a mapping") for each in (None, ["a"], {"a": None}, {"a": [1]})),
        ({"a": {"extends": "b"}, "b": {"extends": "a"}}, "cycle: a extends b extends a;"),
    ],
    ids=str,
)
def test_malformed_changes_are_rejected_with_the_fault(changes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SHIPPED.reconfigured(changes)


def test_a_rejected_change_does_not_change_the_book() -> None:
    before = dict(SHIPPED)

    with pytest.raises(ValueError, match="limit"):
        SHIPPED.reconfigured({"annie": {"limit": 7}, "default": {"limit": -1}})

    assert dict(SHIPPED) == before


def test_change_of_profile_reaches_extending_profiles() -> None:
    changed = SHIPPED.reconfigured({"two_stage_baseline": {"legs": {"dense": {"depth": 60}}}})

    assert changed["two_stage"].leg("dense").depth == 60


def test_leg_set_to_null_by_heir_is_removed(tmp_path: Path) -> None:
    heir = {"extends": "default", "legs": {"facts": None}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(heir))

    for book in (SHIPPED.reconfigured({"mine": heir}), ProfileBook.load(tmp_path)):
        assert set(book["mine"].weights) == set(SHIPPED["default"].weights) - {"facts"}


def test_legs_may_be_given_in_any_order() -> None:
    definition = SHIPPED.definition("recollection")
    turned = {**definition, "legs": dict(reversed(definition["legs"].items()))}

    book = SHIPPED.reconfigured({"turned": turned})

    assert [leg.name for leg in book["turned"].legs] == ["lexical", "dense"]


def test_a_definition_has_only_the_options_of_each_leg() -> None:
    legs = SHIPPED.definition("default")["legs"]

    assert "words" in legs["lexical"]
    assert not {"words", "pool"} & legs["graph"].keys()
    assert not {"walk", "yields"} & legs["dense"].keys()


def test_limit_below_reserved_places_is_accepted() -> None:
    mine = {"extends": "default", "legs": {"graph": {"reserved": 3}}}
    book = SHIPPED.reconfigured({"mine": mine})

    assert book.changed("mine", {"limit": 1}).leg("graph").reserved == 3


@pytest.mark.parametrize("option", ["resolve_names", "split_questions"])
def test_a_question_is_changed_only_if_configured(option: str) -> None:
    changing = KEPT.changed("plain", {option: True})

    assert (getattr(KEPT["plain"], option), getattr(changing, option)) == (False, True)


def test_call_may_disable_leg_unlike_stored_profile() -> None:
    alone = SHIPPED.changed("default", {"legs": {"graph": {"weight": 0.1}}, "limit": 3})

    assert (alone.leg("graph").weight, alone.limit) == (0.1, 3)


def test_the_later_of_depth_and_depth_per_limit_counts() -> None:
    book = SHIPPED
    heir = {"extends": "annie", "legs": {"lexical": {"depth": 7}}}
    again = {"extends": "mine", "legs": {"lexical": {"depth_per_limit": 3}}}
    own = book.reconfigured({"mine": heir, "again": again})

    of_a_call = book.changed("annie", {"legs": {"lexical": {"depth": 9}}})

    assert book["annie"].leg("lexical").depth_for(5) == 20
    assert own["mine"].leg("lexical").depth_for(5) == 7
    assert own["again"].leg("lexical").depth_for(5) == 15
    assert of_a_call.leg("lexical").depth_for(5) == 9


def test_a_leg_with_both_depths_is_refused() -> None:
    both = {"legs": {"lexical": {"depth": 9, "depth_per_limit": 2}}}

    with pytest.raises(FieldError, match=r"legs\.lexical\.depth: must not be set together with"):
        SHIPPED.changed("annie", both)


def test_a_call_may_not_extend() -> None:
    with pytest.raises(FieldError, match="extends"):
        SHIPPED.changed("default", {"extends": "annie"})


def test_a_definition_makes_the_same_profile_again() -> None:
    for name, profile in SHIPPED.items():
        again = SHIPPED.changed(name, SHIPPED.definition(name))

        assert again == profile


def test_a_users_folder_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: default\nlimit: 13\n")
    (tmp_path / "annie.yaml").write_text("description: ours\nlegs: {lexical: {}}\n")

    book = ProfileBook.load(tmp_path)

    assert book["mine"].limit == 13
    assert [leg.name for leg in book["annie"].legs] == ["lexical"]


def test_user_profile_may_extend_shipped_namesake(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("extends: default\nlimit: 13\n")
    (tmp_path / "two_stage.yml").write_text("extends: two_stage\nlimit: 4\n")

    book = ProfileBook.load(tmp_path)

    assert book["default"].limit == 13
    assert book["default"].legs == SHIPPED["default"].legs
    assert (book["two_stage"].limit, book["two_stage"].rerank) == (4, SHIPPED["two_stage"].rerank)


def test_two_files_of_one_profile_are_refused(tmp_path: Path) -> None:
    for suffix in (".yaml", ".yml"):
        (tmp_path / f"mine{suffix}").write_text("extends: default\n")

    with pytest.raises(ValueError, match=r"mine\.yaml and .*mine\.yml define the same profile"):
        ProfileBook.load(tmp_path)


# ---------------------------------------------------------------- settings


SECRET = "hunter2"
DSN = "TRIVIUM_POSTGRES__DSN"
PROFILES = "TRIVIUM_RETRIEVAL__PROFILES"


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("TRIVIUM_POSTGRES__DNS", "postgres.dns"),
        ("TRIVIUM_NEO4J__PASSWD", "neo4j.passwd"),
        ("TRIVIUM_SERVE__GRPC_PORT", "serve.grpc_port"),
    ],
)
def test_wrong_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, field: str
) -> None:
    monkeypatch.setenv(variable, SECRET)

    with pytest.raises(ValidationError) as refused:
        load_settings()

    assert field in str(refused.value)
    assert SECRET not in str(refused.value)


def run(command: str, variable: str, value: str | Path) -> Result:
    return CliRunner().invoke(main, [command], env={variable: str(value)})


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TRIVIUM_POSTGRES", SECRET, 'field "postgres"'),
        ("TRIVIUM_POSTGRES__DNS", SECRET, "  postgres.dns: there is no such setting"),
        ("TRIVIUM_HTTP__CORS_ORIGINS", f"https://{SECRET}", "lists and mappings are JSON"),
        ("TRIVIUM_CONFIG", "/nowhere/trivium.yaml", "/nowhere/trivium.yaml"),
        (DSN, f"host=127.0.0.1 password=two {SECRET}", f"postgres.dsn does not parse ({DSN})"),
        ("TRIVIUM_TLS__CERTIFICATE", SECRET, "there is no setting TRIVIUM_TLS__CERTIFICATE"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "serve", "serve-config"])
def test_command_reports_the_fault_without_the_value(
    command: str, variable: str, value: str, said: str
) -> None:
    ended = run(command, variable, value)

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert SECRET not in ended.output


def test_check_config_masks_secrets() -> None:
    printed = run("check-config", DSN, f"host=/ password={SECRET}")

    assert printed.exit_code == 0
    assert "dsn: '**********'" in printed.stdout
    assert SECRET not in printed.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends: default\nlegs: {dense: {depth: -1}}", "mine.yaml): legs.dense.depth: must be"),
        ("extends: [default]", "mine.yaml): extends: no profile is called ['default']"),
        ("a: [", "mine.yaml is not valid YAML"),
        ("- a", "mine.yaml must contain a mapping"),
    ],
)
@pytest.mark.parametrize("command", ["check-config", "doctor", "serve"])
def test_an_invalid_profile_is_reported_with_its_file(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)

    ended = run(command, PROFILES, tmp_path)

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert PROFILES in ended.stderr


def test_profile_faults_are_on_separate_lines(tmp_path: Path) -> None:
    faulty = "extends: default\nlegs: {dense: {depth: -1, weight: -1}}\n"
    (tmp_path / "mine.yaml").write_text(faulty)
    (tmp_path / "yours.yaml").write_text("extends: nobody\n")

    lines = run("check-config", PROFILES, tmp_path).stderr.splitlines()

    assert [line.split(":")[0] for line in lines[1:]] == [
        f"  profile 'mine' (file {tmp_path}/mine.yaml)",
        f"  profile 'yours' (file {tmp_path}/yours.yaml)",
    ]


def test_check_config_names_the_profiles_that_it_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: default\n")

    printed = run("check-config", PROFILES, tmp_path).stdout

    assert f"# profile mine: {tmp_path}/mine.yaml" in printed.splitlines()
    assert "# profile annie: " in printed


def test_a_missing_folder_of_profiles_is_reported(tmp_path: Path) -> None:
    ended = run("doctor", PROFILES, tmp_path / "nowhere")

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert str(tmp_path / "nowhere") in ended.stderr


API = {"url": "http://127.0.0.1:11434/v1"}
JWKS = "https://issuer.example/keys"


def placed(placement: str, **gpus: float) -> dict[str, object]:
    return {"serve": {"placement": placement, "gpus": gpus}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedder": {"api": API}}, "dimension must be set"),
        ({"embedder": {"api": API, "dimension": 8, "device": "cuda"}}, "device says how"),
        ({"embedder": {"api": API, "dimension": 8, "precision": "int8"}}, "precision says how"),
        ({"embedder": {"api": {"url": "localhost:11434"}, "dimension": 8}}, "https?://"),
        *((placed("single", **{part: 0.5}), part) for part in ("embedder", "index", "reranker")),
        *((placed("gpu", **{part: 0.5}), part) for part in ("ingress", "index")),
        (placed("split", ingress=0.5), "gpus.ingress: models run elsewhere in placement split"),
        (placed("gpu", embedder=2), "less than or equal to 1"),
        ({"index": {"kind": "hnsw"}}, "index.kind"),
        ({"index": {"lists": 5}}, "index.lists"),
        ({"index": {"device": "gpu"}}, "index.device"),
        ({"index": {"device": "cuda:"}}, "index.device"),
        ({"index": {"lists_share": 1}}, "index.lists_share"),
        ({"auth": {"jwks": JWKS}}, "issuer and audience"),
        ({"auth": {"jwks": "http://a", "issuer": "b", "audience": "c"}}, "begin with https"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        load_settings(given)


def test_api_key_comes_from_environment_or_file_unshown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"embedder": {"model": "m", "dimension": 768, "api": API}}
    without = load_settings(given).embedder.api
    monkeypatch.setenv("TRIVIUM_EMBEDDER__API__KEY", SECRET)
    by_environment = load_settings(given)
    monkeypatch.delenv("TRIVIUM_EMBEDDER__API__KEY")
    (tmp_path / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("TRIVIUM_EMBEDDER__API__KEY_FILE", str(tmp_path / "key"))
    by_file = load_settings(given)

    assert without is not None
    assert without.secret() is None
    for settings in (by_environment, by_file):
        assert settings.embedder.api is not None
        assert settings.embedder.api.secret() == SECRET
        assert SECRET not in repr(settings)


def test_an_empty_variable_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = load_settings()
    monkeypatch.setenv("TRIVIUM_CACHE_DIR", "")
    monkeypatch.setenv("TRIVIUM_SERVE__GRPC_PORT", "")

    assert load_settings() == usual


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"- {SECRET}\n", "mine.yaml (TRIVIUM_CONFIG) must be a mapping of sections"),
        (f"postgres: {{dns: {SECRET}}}\n", "postgres.dns: there is no such setting"),
        ("postgres: [\n", "mine.yaml"),
    ],
)
def test_unusable_file_of_settings_is_reported(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)

    ended = run("check-config", "TRIVIUM_CONFIG", file)

    assert ended.exit_code == EXIT_MISCONFIGURED
    assert said in ended.stderr
    assert SECRET not in ended.output


def test_empty_file_of_settings_sets_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = load_settings()
    file = tmp_path / "mine.yaml"
    file.write_text("# nothing yet\n")
    monkeypatch.setenv("TRIVIUM_CONFIG", str(file))

    assert load_settings() == usual
