//! Which checks of the suite show what a fault does to which work.

/// What a failed check of a row means.
#[derive(Clone, Copy)]
pub(super) enum Failure {
    /// Two held one name, or could have.
    Overlap,
    /// Something else that was promised.
    Promise,
}

impl Failure {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Overlap => "overlap seen",
            Self::Promise => "promise broken",
        }
    }
}

/// A row: the work, what breaks meanwhile, and the checks that make it happen.
pub(super) struct Fault {
    pub(super) work: &'static str,
    pub(super) fault: &'static str,
    pub(super) failure: Failure,
    pub(super) checks: &'static [&'static str],
}

const fn row(work: &'static str, fault: &'static str, failure: Failure, checks: &'static [&'static str]) -> Fault {
    Fault { work, fault, failure, checks }
}

use Failure::{Overlap, Promise};

const HOLD: &str = "holding";
const WAIT: &str = "waiting";
const ACQUIRE: &str = "acquiring";
const RELEASE: &str = "releasing";
const WRITE: &str = "writing to a fenced register";
const RANDOM: &str = "random work of several clients";

/// All rows, by work.
pub(super) const FAULTS: &[Fault] = &[
    row(
        HOLD,
        "none, many contend",
        Overlap,
        &["exclusion::one_holder", "exclusion::many_contend", "exclusion::first_use", "owner::same_client"],
    ),
    row(HOLD, "holder hangs past its lease", Overlap, &["hung::holder_loses"]),
    row(HOLD, "client dies", Promise, &["wake::dead_holder", "lease::not_late"]),
    row(
        HOLD,
        "client and server are parted",
        Overlap,
        &["frontend::lost_before_another_enters", "frontend::cut_off_is_told_by_the_deadline"],
    ),
    row(HOLD, "session ends", Promise, &["loss::session", "frontend::ended_session_is_told_soon"]),
    row(HOLD, "hold is taken away", Promise, &["loss::revoked", "frontend::revocation_is_told_soon"]),
    row(HOLD, "server restarts", Promise, &["lease::kept_over_restart", "loss::restart_is_told"]),
    row(HOLD, "server hangs", Promise, &["outcome::frozen_server"]),
    row(WAIT, "wake-up is lost", Promise, &["wake::lost_wakeup"]),
    row(WAIT, "first waiter hangs", Promise, &["hung::waiter_does_not_block_for_long"]),
    row(
        WAIT,
        "waiter gives up",
        Promise,
        &["wait::dropped_wait_keeps_place", "wait::dropped_then_released_harms_nobody"],
    ),
    row(
        WAIT,
        "session is replaced",
        Overlap,
        &["stale::no_grant_from_earlier_session", "stale::new_session_starts_anew"],
    ),
    row(
        ACQUIRE,
        "caller gives up",
        Promise,
        &[
            "frontend::cancelled_acquire_leaves_nothing",
            "frontend::cancelled_at_the_grant",
            "history::cancelled_at_each_poll",
        ],
    ),
    row(ACQUIRE, "reply is lost", Promise, &["outcome::swallowed_reply"]),
    row(ACQUIRE, "server cannot be reached", Promise, &["outcome::unreachable_is_unknown"]),
    row(RELEASE, "reply is lost", Promise, &["outcome::swallowed_release"]),
    row(RELEASE, "request arrives late", Overlap, &["release::delayed_request"]),
    row(
        RELEASE,
        "hold had ended before",
        Overlap,
        &["frontend::late_release_spares_the_next", "frontend::late_clone_spares_the_next"],
    ),
    row(WRITE, "holder is paused past its lease", Overlap, &["register::paused_holder_is_refused"]),
    row(WRITE, "two write at once", Overlap, &["register::one_writer_a_version", "register::stale_token_is_refused"]),
    row(WRITE, "reply is lost", Promise, &["register::swallowed_reply", "register::silence_is_unknown"]),
    row(WRITE, "server restarts", Promise, &["register::survives_restart"]),
    row(RANDOM, "links are cut and delayed", Overlap, &["history::random_links"]),
];
