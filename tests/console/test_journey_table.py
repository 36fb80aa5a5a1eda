"""The journeys that the console was designed for, each with the tests that walk it in a browser."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

JOURNEYS_COUNT = 42
HERE = Path(__file__).parent

JOURNEYS: Mapping[int, tuple[str, ...]] = {
    # Nothing is lost.
    1: ("journeys a_fresh_server_answers_the_first_message_without_a_key",),
    2: ("resuming six_cuts_in_one_answer_lose_nothing",),
    3: ("journeys an_answer_survives_cuts_and_a_reload_and_equals_what_is_stored",),
    4: ("resuming an_answer_goes_on_after_the_server_was_killed",),
    5: ("journeys messages_written_without_a_connection_arrive_once_and_in_order",),
    6: ("attachments a_file_attached_without_a_connection_is_sent_after_a_reload",),
    7: ("devices two_tabs_have_one_outbox_and_a_message_is_one_turn",),
    8: ("resuming a_hidden_tab_is_parked_and_comes_back_exactly",),
    9: ("resuming events_that_are_gone_are_read_from_the_store", "overrun more_events_than_are_kept_are_read_from_the_store"),
    10: ("resuming a_slow_reader_gets_all_of_a_long_answer",),
    11: ("resuming a_tab_that_meets_another_version_loads_once_and_keeps_what_was_written",),
    12: ("resuming the_console_starts_without_a_server_and_shows_nothing_of_another_user",),
    # Two devices.
    13: ("journeys two_windows_show_the_same_and_either_may_stop",),
    14: (
        "actions a_question_is_edited_and_what_was_taken_back_can_be_read_and_continued",
        "actions an_answer_is_given_again_and_a_question_taken_back",
    ),
    15: ("devices a_draft_of_the_phone_is_offered_on_the_desk_and_comes_back_after_a_reload",),
    16: ("devices an_answer_is_unread_elsewhere_until_it_was_looked_at",),
    17: ("branches a_fork_is_marked_at_its_message_and_the_tree_leads_back",),
    18: (
        "journeys a_conversation_is_renamed_deleted_and_brought_back",
        "branches a_deleted_conversation_is_listed_and_restored",
    ),
    # Hostile and odd text.
    19: (
        "texts forty_payloads_become_no_element_and_no_request_wherever_they_are",
        "hostile_pages forty_payloads_are_only_text_on_every_page",
    ),
    20: ("texts odd_texts_are_read_as_they_are_meant",),
    21: ("journeys enter_that_chooses_a_word_of_an_input_method_does_not_send",),
    22: ("texts a_search_of_chinese_words_marks_them_and_opens_at_the_message", "journeys a_search_leads_to_the_message"),
    23: ("texts odd_texts_are_read_as_they_are_meant",),
    24: ("texts very_long_texts_stay_responsive",),
    # Everybody.
    25: (
        "everybody magnified_pages_and_phones_need_no_sideways_scrolling",
        "access a_page_has_no_fault_in_either_theme_or_language_and_fits_a_phone",
        "people pages_of_people_have_no_fault_fit_a_phone_and_show_hostile_names_as_text",
    ),
    26: ("everybody the_keyboard_is_enough", "everybody a_user_signs_in_approves_and_changes_a_setting_without_a_mouse"),
    27: (
        "access a_page_has_no_fault_in_either_theme_or_language_and_fits_a_phone",
        "people pages_of_people_have_no_fault_fit_a_phone_and_show_hostile_names_as_text",
    ),
    28: ("everybody a_reader_hears_that_an_answer_begins_and_ends_and_no_words_of_it",),
    29: (
        "everybody magnified_pages_and_phones_need_no_sideways_scrolling",
        "everybody forced_colours_keep_controls_and_states_visible",
    ),
    30: (
        "actions earlier_messages_keep_the_place_and_an_address_leads_to_one",
        "work an_answer_draws_itself_and_nothing_else_however_long_the_conversation",
    ),
    # Who.
    31: (
        "sign_in a_key_signs_in_and_is_in_no_storage",
        "sign_in a_revoked_key_leads_to_the_sign_in_page_with_the_reason",
        "sign_in signing_out_reaches_the_other_tabs_and_a_list_the_other_devices",
        "sign_in signing_out_everywhere_else_reaches_every_other_device_and_not_this_one",
        "people expired_and_revoked_keys_have_a_sentence_in_both_languages",
    ),
    32: ("people a_person_signs_in_at_the_identity_provider_and_a_replay_is_refused",),
    33: ("sign_in a_page_of_another_origin_can_neither_use_nor_frame_it",),
    34: (
        "people everybody_opens_what_their_permissions_allow_and_is_told_which_are_missing",
        "people foreign_ids_are_not_there",
    ),
    # Work.
    35: (
        "activity a_provider_that_is_limited_says_so_and_who_answers_instead",
        "problems a_provider_that_fails_or_limits_has_its_sentence_and_the_question_is_asked_again",
        "problems a_full_disk_an_empty_wallet_and_a_reached_quota_lose_nothing",
    ),
    36: ("builder a_prompt_is_published_compared_and_an_agent_upgraded_after_a_dry_run",),
    37: ("activity a_replay_shows_what_was_streamed_by_each_moment_and_its_address_reproduces_it",),
    38: ("people from_a_tenant_to_a_quota_that_is_reached_and_raised_by_hand",),
    39: ("people usage_is_the_sum_of_the_ledger_and_its_csv_is_its_table", "people the_smallest_price_can_be_read"),
    40: (
        "settings a_setting_is_found_previewed_saved_and_rolled_back",
        "settings the_second_editor_sees_what_the_first_has_changed_and_loses_nothing",
    ),
    41: (
        "activity an_error_leads_to_its_entries_and_its_turn_and_back",
        "activity the_log_is_followed_over_a_restart_and_hostile_facts_are_text",
    ),
    42: (
        "attachments files_are_dropped_pasted_and_chosen_and_shown_from_the_own_server",
        "settings an_export_of_chatgpt_comes_in_after_a_dry_run_and_everything_goes_elsewhere",
    ),
}


@cache
def written_in(module: str) -> frozenset[str]:
    """The tests of a module that are run: none that is marked to be skipped."""
    tree = ast.parse((HERE / f"test_{module}.py").read_text("utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if not any("skip" in ast.unparse(mark) for mark in each.decorator_list))


def test_every_journey_is_walked_by_a_test_that_exists() -> None:
    assert sorted(JOURNEYS) == list(range(1, JOURNEYS_COUNT + 1))
    named = [(number, *each.split(" ", 1)) for number, tests in JOURNEYS.items() for each in tests]
    assert [(number, module, name) for number, module, name in named if f"test_{name}" not in written_in(module)] == []
