"""Every row of ../shared/cases/README.md holds as a test: which ones hold it. A row without a test, or a test that is gone, fails here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CASES = TESTS.parents[1] / "shared" / "cases" / "README.md"
_CASES, _NEW = "stages/analyse/test_cases.py", "stages/analyse/test_observed_detectors.py"
_MAPPING, _NUMBERS = "stages/train/imports/test_mapping.py", "stages/publish/test_numbers.py"
_CONCLUDE, _STATISTICS = "stages/analyse/test_conclude.py", "stages/analyse/test_statistics.py"
HELD: dict[int, tuple[str, ...]] = {
    1: (
        f"{_CASES}::test_case_1_persistent_nan_ends_the_valid_range",
        f"{_MAPPING}::test_case_1_and_4_nan_and_sparse_rows",
    ),
    2: (f"{_CASES}::test_case_2_transient_nan_leaves_the_run_in",),
    3: ("stages/train/imports/test_readers.py::test_case_3_bare_nan_and_infinity_of_a_real_trainer_state",),
    4: (f"{_CASES}::test_case_4_sparse_rows_are_absent_not_missing",),
    5: (f"{_CASES}::test_case_5_no_reward_is_never_healthy_diversity",),
    6: (f"{_CASES}::test_case_6_batch_spread_does_not_hide_constant_groups",),
    7: (f"{_MAPPING}::test_case_7_merged_names_are_flagged_and_honest_ones_are_not",),
    8: (f"{_CASES}::test_case_8_null_control",),
    9: (f"{_CASES}::test_case_9_a_reward_that_raised_at_step_4",),
    10: (f"{_CASES}::test_case_10_stride_patience_counts_steps", f"{_MAPPING}::test_case_10_stride_and_gaps"),
    11: (f"{_CASES}::test_cases_11_12_20_steps_done",),
    12: (f"{_CASES}::test_cases_11_12_20_steps_done", f"{_MAPPING}::test_case_12_step_301_is_contamination"),
    13: (f"{_CASES}::test_case_13_spikes_in_a_signed_series_near_zero",),
    14: (f"{_CASES}::test_case_14_when_every_other_row_is_flagged_the_rule_is_not_applicable",),
    15: (
        f"{_CONCLUDE}::test_case_15_and_16_changes_are_absolute",
        f"{_NUMBERS}::test_case_15_in_a_table",
    ),
    16: (f"{_CONCLUDE}::test_case_15_and_16_changes_are_absolute",),
    17: ("stages/analyse/test_screen.py::test_case_17_a_duplicate_seed_drops_n_loudly",),
    18: ("stages/analyse/test_frames.py::test_case_18_a_later_attempt_wins_and_the_overlap_is_noted",),
    19: ("stages/train/test_run.py::test_a_manifest_refuses_what_would_make_a_mixture",),
    20: (f"{_CASES}::test_cases_11_12_20_steps_done", "e2e/test_command_runs.py::test_case_20_exit_code_0_is_no_success"),
    21: (
        f"{_STATISTICS}::test_case_21_wilson_intervals_of_attempts",
        f"{_CONCLUDE}::test_case_21_attempts_of_each_condition_have_their_interval",
    ),
    22: (f"{_NEW}::test_case_22_a_negative_estimate_is_a_mismatch_of_sampling_and_scoring",),
    23: (f"{_NEW}::test_case_23_a_slightly_negative_start_is_no_finding",),
    24: (f"{_NEW}::test_case_24_no_gradient_although_rewards_differ_is_a_disconnected_adapter",),
    25: (
        "stages/analyse/test_detectors.py::test_a_huge_gradient_is_one_spike_with_its_step",
        "stages/publish/test_causes.py::test_case_25_a_spike_of_the_gradient_says_whether_clipping_was_on",
    ),
    26: (f"{_CASES}::test_case_26_reward_atom_with_examples",),
    27: (f"{_NEW}::test_case_27_a_length_reward_at_its_maximum_with_one_word_answers",),
    28: ("stages/train/rewards/test_compose.py::test_inversion_turns_numbers_and_leaves_unknown",),
    29: (
        "stages/train/verifiers/test_python_answers.py::test_candidates_that_are_at_fault",
        "stages/train/verifiers/test_python_answers.py::test_a_killed_box_is_replaced_and_no_verdict_changes",
    ),
    30: ("stages/train/rewards/test_ocaml_gates.py::test_a_syntax_error_is_not_a_type_error",),
    31: (
        "stages/train/rewards/test_lean_gates.py::test_cheats_are_forbidden",
        "stages/train/rewards/test_lean_gates.py::test_axioms_must_be_allowed",
    ),
    32: (
        "stages/train/imports/test_wandb_api.py::test_a_snapshot_holds_every_row_of_all_pages_and_gaps_and_reads_back",
        f"{_MAPPING}::test_an_uneven_log_looks_sampled",
    ),
    33: ("stages/train/imports/test_wandb_api.py::test_case_33_no_rows_is_an_error_and_never_a_run_of_no_steps",),
    34: ("stages/train/imports/test_readers.py::test_case_34_a_cut_wandb_file_is_read_up_to_the_torn_record",),
    35: (
        "stages/train/imports/test_readers.py::test_case_35_lines_of_a_text_log_also_with_a_wrong_encoding",
        f"{_MAPPING}::test_case_35_an_epoch_is_no_step",
    ),
    36: (f"{_NUMBERS}::test_case_36_a_falling_rate_has_a_negative_change",),
    37: ("errors::E304",),
    38: ("errors::E352-case-38", "errors::E362-case-38"),
    39: (
        "errors::E201-case-39",
        "errors::E203-case-39",
        "compiler/test_source.py::test_duplicate_keys_are_all_reported",
        "compiler/test_source.py::test_alias_bomb_is_refused_at_once",
        "compiler/test_source.py::test_any_bytes_are_a_document_or_a_diagnostic",
        "compiler/test_source.py::test_too_large",
    ),
    40: (
        *(f"errors::E206-case-40-{name}" for name in ("path", "space", "shell", "long")),
        "errors::E207-case-40-device",
    ),
    41: ("errors::E339-case-41", "compiler/test_shared_and_parents.py::test_each_undeclared_difference_is_refused"),
    42: ("stages/publish/test_page.py::test_hostile_text_is_only_ever_text",),
    43: (
        f"{_CONCLUDE}::test_case_43_a_single_seed_is_void",
        f"{_STATISTICS}::test_case_43_one_seed_has_a_value_and_no_interval",
    ),
    44: (f"{_CONCLUDE}::test_case_44_arms_with_different_rewards_are_never_ranked_by_reward",),
    45: ("e2e/test_imported_runs.py::test_case_45_summaries_of_a_real_study",),
}


_KINDS = "stages/analyse/test_kinds.py"
_BROKEN = f"{_KINDS}::test_cases_1_and_2_nothing_that_a_broken_step_holds_is_seen_by_any_detector"
_SPREAD = f"{_KINDS}::test_cases_5_and_6_the_spread_of_the_batch_decides_nothing"
_ESTIMATE = f"{_KINDS}::test_cases_22_and_23_a_negative_kl_is_judged_by_its_error_and_not_by_its_size"
_LOGS, _CHANGES = "e2e/test_kinds_of_logs.py", "e2e/test_kinds_of_changes.py"
_DONE = f"{_LOGS}::test_cases_11_12_and_20_no_log_is_more_or_less_complete_than_its_last_trajectory"
_ZERO = "test_cases_5_and_24_a_gradient_of_zero_is_disconnected_or_without_signal_and_never_both_for_one_reason"
WHOLE_KIND: dict[int, tuple[str, ...]] = {
    1: (_BROKEN,),
    2: (_BROKEN,),
    3: ("stages/train/imports/test_readers.py::test_bare_nan_in_json_is_not_finite_and_text_of_that_name_is_left_alone",),
    4: ("stages/analyse/test_frames.py::test_four_states_of_a_cell_stay_apart",),
    5: (_SPREAD, f"{_LOGS}::test_case_5_without_rewards_no_number_says_that_groups_differ"),
    6: (_SPREAD, f"{_LOGS}::test_case_6_of_a_spread_that_may_be_the_batch_s_it_is_said"),
    7: (f"{_MAPPING}::test_case_7_a_sum_of_any_parts_is_honest_and_of_one_name_for_several_it_is_flagged",),
    8: (f"{_KINDS}::test_case_8_what_a_null_control_shows_is_expected",),
    9: (
        "stages/train/test_run.py::test_case_9_a_crash_has_its_class_its_step_and_the_steps_done_before_it",
        "stages/analyse/test_screen.py::test_case_9_a_failed_run_says_its_class_and_the_steps_done",
    ),
    10: (f"{_KINDS}::test_case_10_patience_counts_steps_at_any_distance_of_rows",),
    11: (_DONE,),
    12: (_DONE, f"{_LOGS}::test_case_12_no_detector_looks_beyond_the_target"),
    13: (f"{_KINDS}::test_case_13_a_spike_is_one_in_any_unit_and_with_any_sign",),
    14: (f"{_KINDS}::test_case_14_no_series_has_more_spikes_than_the_share_allowed",),
    15: (
        f"{_CHANGES}::test_cases_15_and_16_in_the_table_of_an_answer",
        f"{_CHANGES}::test_cases_15_and_16_in_the_table_of_conditions",
        f"{_CHANGES}::test_cases_15_and_16_in_what_programs_read",
    ),
    16: (f"{_CHANGES}::test_cases_15_and_16_in_prose", f"{_CHANGES}::test_cases_15_and_16_in_the_table_of_an_answer"),
    17: (
        f"{_KINDS}::test_case_17_any_single_difference_makes_two_runs",
        f"{_LOGS}::test_case_17_n_is_the_number_of_distinct_runs",
    ),
    18: (f"{_KINDS}::test_case_18_each_step_belongs_to_the_last_attempt_that_began_before_it", _DONE),
    19: ("stages/train/test_run.py::test_a_manifest_refuses_what_would_make_a_mixture",),
    20: ("e2e/test_command_runs.py::test_case_20_no_attempt_is_complete_below_its_target_whatever_its_exit_code", _DONE),
    21: (f"{_STATISTICS}::test_intervals_equal_those_of_scipy_stats",),
    22: (_ESTIMATE,),
    23: (_ESTIMATE,),
    24: (f"{_LOGS}::{_ZERO}",),
    25: (
        f"{_LOGS}::test_case_25_a_spike_has_its_step_wherever_it_is_and_however_high",
        f"{_LOGS}::test_case_25_what_a_series_begins_with_is_no_spike_and_a_short_run_says_that_it_is_too_short",
    ),
    26: (f"{_KINDS}::test_case_26_any_value_but_none_and_the_highest_is_an_atom",),
    27: (f"{_KINDS}::test_case_27_full_reward_of_any_height_with_short_answers",),
    28: (
        "stages/train/rewards/test_compose.py::test_unknown_is_never_a_number",
        "stages/train/rewards/test_weighted.py::test_unknown_never_becomes_a_number_and_rewards_stay_in_0_to_1",
    ),
    29: (
        "stages/train/verifiers/test_python_answers.py::test_candidates_that_are_at_fault",
        "stages/train/verifiers/test_python_answers.py::test_the_cpu_limit_is_not_a_wall_limit",
    ),
    30: ("stages/train/rewards/test_ocaml_gates.py::test_as_ocamlc_says",),
    31: ("stages/train/rewards/test_lean_gates.py::test_cheats_fail_even_when_they_know_the_nonce_and_no_word_is_refused",),
    32: (f"{_MAPPING}::test_case_32_an_export_of_500_rows_never_passes_for_a_whole_log",),
    33: ("stages/train/imports/test_wandb_api.py::test_case_33_no_rows_is_an_error_and_never_a_run_of_no_steps",),
    34: (
        "stages/train/imports/test_readers.py::test_case_34_a_wandb_file_with_any_byte_wrong_or_missing_is_read_up_to_there_and_never_beyond",
    ),
    35: ("stages/train/imports/test_readers.py::test_case_35_numbers_of_any_style_and_size_are_read_as_they_were_printed",),
    36: (f"{_CHANGES}::test_cases_15_and_16_in_the_table_of_an_answer",),
    37: ("compiler/test_rules.py::test_every_fix_for_groups_works",),
    38: ("compiler/test_stops.py::test_the_border_of_a_dead_rule", "compiler/test_stops.py::test_the_borders_of_expectations"),
    39: (
        "compiler/test_fuzz.py::test_characters_replaced_at_random",
        "compiler/test_source.py::test_any_bytes_are_a_document_or_a_diagnostic",
    ),
    40: ("compiler/test_rules.py::test_case_40_any_name_is_plain_to_shells_paths_addresses_and_findings_or_refused",),
    41: ("compiler/test_shared_and_parents.py::test_each_undeclared_difference_is_refused",),
    42: ("stages/publish/test_text.py::test_a_browser_shows_exactly_the_visible_text_and_markdown_reads_nothing_in_it",),
    43: (f"{_KINDS}::test_case_43_a_single_seed_never_has_an_interval",),
    44: (f"{_KINDS}::test_case_44_no_two_rewards_are_ranked_by_any_measure_of_reward",),
    45: ("e2e/test_kinds_of_summaries.py::test_case_45_the_page_says_what_the_file_says_and_leaves_out_what_broke",),
}
"""What holds of any input of the kind, or of a list of many, beside the row's own numbers."""


@pytest.mark.parametrize("row", sorted(HELD))
def test_the_tests_of_a_row_are_there(row: int) -> None:
    assert HELD[row]
    for place in (*HELD[row], *WHOLE_KIND[row]):
        file, _, name = place.partition("::")
        path = TESTS / file
        if path.is_dir():
            assert any(re.search(rf"^=== {name}\b(?!-)", cases.read_text(encoding="utf-8"), re.M) for cases in path.glob("*.txt")), place
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, place


FIRST_LATER_ROW = 46
"""Rows from here on describe logs that octavo does not read rightly yet: they are work to come, and not held."""


def test_no_row_is_without_a_test() -> None:
    if not CASES.is_file():
        pytest.skip("the shared cases are not beside this checkout")
    rows = {int(found) for found in re.findall(r"^\| (\d+) \|", CASES.read_text(encoding="utf-8"), re.MULTILINE)}
    assert {row for row in rows if row < FIRST_LATER_ROW} == set(HELD) == set(WHOLE_KIND)
