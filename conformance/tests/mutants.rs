//! Test of the tests: backends that are wrong in one way each, which must fail exactly the checks that name their fault.

#[path = "mutants/harness.rs"]
mod harness;
#[path = "mutants/mutant.rs"]
mod mutant;
#[path = "mutants/register.rs"]
mod register;

use std::collections::BTreeSet;
use std::sync::Arc;

use harness::MutantHarness;
use lockyard_api::Queueing::{self, Fifo, Unordered};
use lockyard_conformance::{CheckOutcome, CheckResult, Suite};
use lockyard_memory::MemoryLiveness::{self, Lease, Session};
use mutant::Fault;
use tokio::task::JoinSet;

/// A fault, the server that it sits on, and the checks that it must fail.
type Case = (Fault, Queueing, MemoryLiveness, &'static [&'static str]);

/// Runs the whole suite on each wrong backend; all that fails must be named, and all that is named must fail.
async fn each_fails_exactly(cases: &[Case]) {
    let mut running = JoinSet::new();
    for case in cases.iter().copied() {
        running.spawn(mismatch(case));
    }
    let mut wrong = Vec::new();
    while let Some(ended) = running.join_next().await {
        wrong.extend(ended.expect("no panic"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn mismatch((fault, queue, liveness, named): Case) -> Option<String> {
    let harness = Arc::new(MutantHarness::new(fault, queue, liveness));
    let results = Suite::latest().run(harness, |_| true, |_| {}).await.expect("memory connects");
    let failures: Vec<&CheckResult> = results.iter().filter(|r| r.outcome == CheckOutcome::Failed).collect();
    let failed: BTreeSet<&str> = failures.iter().map(|result| result.name).collect();
    let named: BTreeSet<&str> = named.iter().copied().collect();
    if failed == named {
        return None;
    }
    let reasons: Vec<_> = failures.iter().map(|result| (result.name, &result.reason)).collect();
    let missed: Vec<_> = named.difference(&failed).collect();
    let more: Vec<_> = failed.difference(&named).collect();
    Some(format!("{fault:?}: not failed {missed:?}, failed without being named {more:?}\n{reasons:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_ownership() {
    each_fails_exactly(&[
        (Fault::None, Fifo, Lease, &[]),
        (
            Fault::ReleaseByName,
            Fifo,
            Lease,
            &[
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
                "inspect::tells_holder",
                "owner::same_client",
                "owner::same_session_second_owner",
                "release::only_owner",
            ],
        ),
        (Fault::RenewRevives, Fifo, Lease, &["loss::renew_of_lost", "loss::revoked"]),
        (Fault::InspectAcquires, Fifo, Lease, &["inspect::takes_nothing", "inspect::tells_holder"]),
        (Fault::LeaveStays, Unordered, Lease, &["leave::nothing_left"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_tokens_and_names() {
    each_fails_exactly(&[
        (
            Fault::TokenReused,
            Fifo,
            Lease,
            &[
                "frontend::tokens_rise",
                "register::paused_holder_is_refused",
                "token::rises",
                "token::rises_in_contention",
            ],
        ),
        (Fault::WaiterDrawsToken, Fifo, Lease, &["token::waiter_draws_none"]),
        (Fault::RepeatDrawsToken, Fifo, Lease, &["repeat::same_token"]),
        (Fault::NameIsCut, Fifo, Lease, &["name::differ"]),
        (Fault::NamespaceIsGlued, Fifo, Lease, &["name::namespaces"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_time() {
    each_fails_exactly(&[
        (
            Fault::NeverExpires,
            Fifo,
            Lease,
            &[
                "frontend::late_release_spares_the_next",
                "hung::holder_loses",
                "hung::waiter_does_not_block_for_long",
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
            &["frontend::lost_before_another_enters", "lease::fixed_ends", "lease::not_early"],
        ),
        (Fault::LeaseToldTooShort, Fifo, Lease, &["lease::granted_not_less"]),
        (Fault::RepeatKeepsOldLease, Fifo, Lease, &["repeat::fresh_lease"]),
        (Fault::BadTtlIsClamped, Fifo, Lease, &["outcome::bad_ttl_is_not_applied"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_waiting() {
    each_fails_exactly(&[
        (Fault::WakeIsLost, Fifo, Lease, &["wake::on_release"]),
        (
            Fault::NeverAsksAgain,
            Fifo,
            Lease,
            &[
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
            &["fifo::order", "repeat::queued_keeps_place", "wait::dropped_wait_keeps_place"],
        ),
        (
            Fault::PlaceIsNotReleased,
            Fifo,
            Lease,
            &[
                "frontend::cancelled_acquire_leaves_nothing",
                "frontend::cancelled_at_the_grant",
                "frontend::timed_out_acquire_leaves_nothing",
                "release::queued_place",
                "wait::dropped_then_released_harms_nobody",
                "wait::parked_wait_blocks_nobody",
            ],
        ),
        (Fault::DropGivesUpPlace, Fifo, Lease, &["wait::dropped_wait_keeps_place"]),
        (Fault::WaitHoldsTheConnection, Fifo, Lease, &["wait::parked_wait_blocks_nobody"]),
        (Fault::WakeIsTakenForGrant, Fifo, Lease, &["hung::holder_loses", "register::paused_holder_is_refused"]),
        (Fault::FullQueueAdmits, Fifo, Lease, &["exclusion::many_contend"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_answers_and_sessions() {
    each_fails_exactly(&[
        (
            Fault::NotAppliedIsGuessed,
            Fifo,
            Lease,
            &[
                "outcome::frozen_server",
                "outcome::swallowed_release",
                "outcome::swallowed_reply",
                "outcome::unreachable_is_unknown",
                "register::silence_is_unknown",
                "register::swallowed_reply",
            ],
        ),
        (Fault::LostRequestIsRepeated, Fifo, Lease, &["release::delayed_request"]),
        (
            Fault::LossIsHidden,
            Fifo,
            Lease,
            &["hung::holder_loses", "loss::renew_after_takeover", "loss::restart_is_told", "loss::revoked"],
        ),
        (Fault::DurableIsClaimed, Fifo, Lease, &["register::survives_restart", "token::rises_across_restart"]),
        (Fault::RestartSafeIsClaimed, Fifo, Lease, &["lease::kept_over_restart"]),
        (Fault::KindIsIgnored, Fifo, Lease, &["outcome::unsupported_kind"]),
        (Fault::StaleSessionIsTaken, Fifo, Session, &["repeat::later_session", "stale::no_grant_from_earlier_session"]),
        (
            Fault::SessionLossIsSilent,
            Fifo,
            Session,
            &["frontend::renewal_keeps", "loss::restart_is_told", "loss::revoked", "loss::session"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_registers() {
    each_fails_exactly(&[
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
    ])
    .await;
}
