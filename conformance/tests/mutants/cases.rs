//! Which wrong backend fails which checks.

use lockyard_api::Queueing::{self, Fifo, Unordered};
use lockyard_memory::MemoryLiveness::{self, Lease, Session};

use crate::fault::Fault;

/// A fault, the server that it sits on, and the checks that it must fail.
pub(crate) type Case = (Fault, Queueing, MemoryLiveness, &'static [&'static str]);

pub(crate) const OWNERSHIP: &[Case] = &[
    (Fault::None, Fifo, Lease, &[]),
    (
        Fault::ReleaseByName,
        Fifo,
        Lease,
        &[
            "frontend::late_clone_spares_the_next",
            "frontend::late_release_spares_the_next",
            "hung::holder_loses",
            "loss::renew_after_takeover",
            "release::idempotent",
            "release::only_owner",
        ],
    ),
    (
        Fault::OwnerIsTheClient,
        Fifo,
        Lease,
        &[
            "frontend::excludes_without_local_queue",
            "frontend::late_clone_spares_the_next",
            "frontend::no_reentry",
            "inspect::tells_holder",
            "owner::same_client",
            "owner::same_session_second_owner",
            "release::only_owner",
        ],
    ),
    (Fault::RenewRevives, Fifo, Lease, &["frontend::revocation_is_told_soon", "loss::renew_of_lost", "loss::revoked"]),
    (Fault::InspectAcquires, Fifo, Lease, &["inspect::takes_nothing", "inspect::tells_holder"]),
    (Fault::LeaveStays, Unordered, Lease, &["leave::nothing_left"]),
    (Fault::FreedIsTakenForFree, Fifo, Lease, &["exclusion::one_holder"]),
    (Fault::FirstUseRaces, Fifo, Lease, &["exclusion::first_use"]),
    (Fault::AbsentIsReleased, Fifo, Lease, &["release::absent", "release::idempotent"]),
    (Fault::BusyIsReserved, Fifo, Lease, &["leave::busy_then_free"]),
    (Fault::InspectIsDeniedAndAnswers, Fifo, Lease, &["inspect::unsupported_is_said"]),
    (
        Fault::LongLeaseStays,
        Fifo,
        Lease,
        &[
            "frontend::busy_is_none",
            "frontend::cancelled_acquire_leaves_nothing",
            "frontend::cancelled_at_the_grant",
            "frontend::drop_releases",
            "frontend::shutdown_drains",
            "frontend::timed_out_acquire_leaves_nothing",
        ],
    ),
];

pub(crate) const TOKENS_AND_NAMES: &[Case] = &[
    (
        Fault::TokenReused,
        Fifo,
        Lease,
        &[
            "exclusion::first_use",
            "exclusion::late_push_is_no_grant",
            "frontend::handed_on_tokens_rise",
            "frontend::late_clone_spares_the_next",
            "frontend::tokens_rise",
            "register::paused_holder_is_refused",
            "token::rises",
            "token::rises_in_contention",
        ],
    ),
    (Fault::WaiterDrawsToken, Fifo, Lease, &["token::waiter_draws_none"]),
    (Fault::TokensAreNotSpaced, Fifo, Lease, &["frontend::handed_on_tokens_rise"]),
    (Fault::RepeatDrawsToken, Fifo, Lease, &["repeat::same_token"]),
    (Fault::NameIsCut, Fifo, Lease, &["name::differ"]),
    (Fault::NamespaceIsGlued, Fifo, Lease, &["name::namespaces"]),
    (Fault::NameIsAPrefix, Fifo, Lease, &["name::differ", "name::namespaces"]),
];

pub(crate) const TIME: &[Case] = &[
    (
        Fault::NeverExpires,
        Fifo,
        Lease,
        &[
            "exclusion::late_push_is_no_grant",
            "frontend::late_clone_spares_the_next",
            "frontend::late_release_spares_the_next",
            "hung::holder_loses",
            "hung::waiter_does_not_block_for_long",
            "hung::waiter_is_forgotten",
            "lease::at_any_phase",
            "lease::fixed_ends",
            "lease::not_late",
            "loss::renew_after_takeover",
            "register::paused_holder_is_refused",
            "wake::dead_holder",
        ],
    ),
    (
        Fault::LeaseToldTooLong,
        Fifo,
        Lease,
        &["frontend::lost_before_another_enters", "lease::at_any_phase", "lease::fixed_ends", "lease::not_early"],
    ),
    (Fault::LeaseToldTooShort, Fifo, Lease, &["lease::granted_not_less"]),
    (Fault::RepeatKeepsOldLease, Fifo, Lease, &["repeat::fresh_lease"]),
    (Fault::BadTtlIsClamped, Fifo, Lease, &["outcome::bad_ttl_is_not_applied"]),
    (Fault::RenewKeepsOldLease, Fifo, Lease, &["frontend::renewal_keeps", "lease::renew_extends"]),
    (
        Fault::LeaseCountsFromLongAgo,
        Fifo,
        Lease,
        &[
            "frontend::busy_is_none",
            "frontend::given_up_at_the_release",
            "frontend::late_clone_spares_the_next",
            "frontend::late_release_spares_the_next",
            "frontend::no_reentry",
            "frontend::renewal_keeps",
        ],
    ),
    (
        Fault::RenewalIsGuessed,
        Fifo,
        Lease,
        &[
            "frontend::cut_off_is_told_by_the_deadline",
            "frontend::lost_before_another_enters",
            "frontend::run_cancels",
            "outcome::frozen_server",
            "outcome::unreachable_is_unknown",
        ],
    ),
    (
        Fault::ClockOfTheClient,
        Fifo,
        Lease,
        &["frontend::lost_before_another_enters", "lease::at_any_phase", "lease::fixed_ends", "lease::not_early"],
    ),
];

pub(crate) const WAITING: &[Case] = &[
    (Fault::WakeIsLost, Fifo, Lease, &["wake::on_release"]),
    (
        Fault::NeverAsksAgain,
        Fifo,
        Lease,
        &[
            "frontend::late_clone_spares_the_next",
            "frontend::late_release_spares_the_next",
            "hung::holder_loses",
            "hung::waiter_does_not_block_for_long",
            "register::paused_holder_is_refused",
            "wake::dead_holder",
            "wake::lost_wakeup",
        ],
    ),
    (
        Fault::LastComesFirst,
        Fifo,
        Lease,
        &["fifo::order", "fifo::shares", "repeat::queued_keeps_place", "wait::dropped_wait_keeps_place"],
    ),
    (
        Fault::PlaceIsNotReleased,
        Fifo,
        Lease,
        &[
            "frontend::cancelled_acquire_leaves_nothing",
            "frontend::cancelled_at_the_grant",
            "frontend::given_up_at_the_release",
            "frontend::timed_out_acquire_leaves_nothing",
            "release::queued_place",
            "wait::dropped_then_released_harms_nobody",
            "wait::parked_wait_blocks_nobody",
            "wait::released_wait_is_no_grant",
        ],
    ),
    (Fault::DropGivesUpPlace, Fifo, Lease, &["wait::dropped_wait_keeps_place"]),
    (Fault::DeadPlaceStays, Fifo, Lease, &["hung::waiter_is_forgotten"]),
    (Fault::WaitHoldsTheConnection, Fifo, Lease, &["wait::parked_wait_blocks_nobody"]),
    (
        Fault::WakeIsTakenForGrant,
        Fifo,
        Lease,
        &["frontend::late_clone_spares_the_next", "hung::holder_loses", "register::paused_holder_is_refused"],
    ),
    (Fault::FullQueueAdmits, Fifo, Lease, &["exclusion::many_contend", "fifo::shares"]),
    (Fault::NewcomerBarges, Fifo, Lease, &["fifo::newcomer_does_not_overtake"]),
    (Fault::GrantOnlyByMessage, Fifo, Lease, &["repeat::queued_finds_grant"]),
    (Fault::WaiterHoldsUpHolder, Fifo, Lease, &["wait::holder_can_work"]),
    (Fault::LatePushIsBelieved, Fifo, Lease, &["exclusion::late_push_is_no_grant"]),
    (Fault::ReleasedWaitIsGranted, Fifo, Lease, &["wait::released_wait_is_no_grant"]),
    (
        Fault::TwoWoken,
        Unordered,
        Lease,
        &["exclusion::late_push_is_no_grant", "exclusion::many_contend", "frontend::excludes_without_local_queue"],
    ),
];

pub(crate) const ANSWERS_AND_SESSIONS: &[Case] = &[
    (
        Fault::NotAppliedIsGuessed,
        Fifo,
        Lease,
        &[
            "outcome::frozen_server",
            "outcome::refused_repeat_is_unknown",
            "outcome::swallowed_release",
            "outcome::swallowed_reply",
            "outcome::unreachable_is_unknown",
            "register::silence_is_unknown",
            "register::swallowed_reply",
        ],
    ),
    (Fault::RefusedRepeatIsCertain, Fifo, Lease, &["outcome::refused_repeat_is_unknown"]),
    (Fault::LostRequestIsRepeated, Fifo, Lease, &["release::delayed_request"]),
    (
        Fault::LossIsHidden,
        Fifo,
        Lease,
        &[
            "frontend::revocation_is_told_soon",
            "hung::holder_loses",
            "loss::renew_after_takeover",
            "loss::restart_is_told",
            "loss::revoked",
        ],
    ),
    (Fault::DurableIsClaimed, Fifo, Lease, &["register::survives_restart", "token::rises_across_restart"]),
    (Fault::RestartSafeIsClaimed, Fifo, Lease, &["lease::kept_over_restart"]),
    (Fault::KindIsIgnored, Fifo, Lease, &["outcome::unsupported_kind"]),
    (Fault::StaleSessionIsTaken, Fifo, Session, &["repeat::later_session", "stale::no_grant_from_earlier_session"]),
    (
        Fault::SessionLossIsSilent,
        Fifo,
        Session,
        &[
            "frontend::ended_session_is_told_soon",
            "frontend::renewal_keeps",
            "frontend::revocation_is_told_soon",
            "loss::restart_is_told",
            "loss::revoked",
            "loss::session",
        ],
    ),
    (
        Fault::HoldOfThePastIsTold,
        Fifo,
        Session,
        &["frontend::late_clone_spares_the_next", "stale::new_session_starts_anew"],
    ),
];

pub(crate) const REGISTERS: &[Case] = &[
    (Fault::RegisterFreshIsNotEmpty, Fifo, Lease, &["register::fresh_is_empty", "register::too_long_is_refused"]),
    (Fault::RegisterIsText, Fifo, Lease, &["register::keeps_every_byte"]),
    (Fault::RegisterCutsValues, Fifo, Lease, &["register::too_long_is_refused"]),
    (
        Fault::RegisterIgnoresToken,
        Fifo,
        Lease,
        &["register::paused_holder_is_refused", "register::stale_token_is_refused"],
    ),
    (
        Fault::RegisterIgnoresVersion,
        Fifo,
        Lease,
        &["register::fresh_is_empty", "register::one_writer_a_version", "register::version_conflict"],
    ),
    (Fault::RegisterConflictComesFirst, Fifo, Lease, &["register::paused_holder_is_refused"]),
    (Fault::RegisterWritesInTwoSteps, Fifo, Lease, &["register::one_writer_a_version"]),
    (
        Fault::RegisterWantsGreaterToken,
        Fifo,
        Lease,
        &[
            "register::equal_token_is_accepted",
            "register::keeps_every_byte",
            "register::one_writer_a_version",
            "register::silence_is_unknown",
            "register::survives_reconnect",
            "register::swallowed_reply",
            "register::version_conflict",
        ],
    ),
    (Fault::RegisterNameIsCut, Fifo, Lease, &["register::names_apart"]),
    (Fault::RegisterNamespaceIsGlued, Fifo, Lease, &["register::namespaces_apart"]),
    (Fault::RegisterIsTheLocks, Fifo, Lease, &["register::beside_its_lock"]),
    (Fault::RegisterEndsWithItsClient, Fifo, Lease, &["register::survives_reconnect"]),
    (Fault::RegisterAgeIsTheFirst, Fifo, Lease, &["register::age_is_of_the_last_write"]),
];

pub(crate) const RANDOM_RUNS: &[Case] = &[
    (Fault::TokenIsOldAfterError, Fifo, Lease, &["history::random_links"]),
    (Fault::HeldIsOwnAfterError, Fifo, Lease, &["history::random_links"]),
    (Fault::ReleasesRunOut, Fifo, Lease, &["frontend::given_up_at_the_release", "history::cancelled_at_each_poll"]),
];

/// All of them, by the name of the test that runs them.
pub(crate) const ALL: &[(&str, &[Case])] = &[
    ("faults_of_ownership", OWNERSHIP),
    ("faults_of_tokens_and_names", TOKENS_AND_NAMES),
    ("faults_of_time", TIME),
    ("faults_of_waiting", WAITING),
    ("faults_of_answers_and_sessions", ANSWERS_AND_SESSIONS),
    ("faults_of_registers", REGISTERS),
    ("faults_that_only_a_random_run_meets", RANDOM_RUNS),
];
