//! What a wrong backend does wrong.

/// One fault: first those of the answers ([`Mutant`](crate::mutant::Mutant)), then those of registers
/// ([`RegisterMutant`](crate::register::RegisterMutant)), then those of what a client remembers
/// ([`Recall`](crate::recall::Recall)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    None,
    ReleaseByName,
    OwnerIsTheClient,
    RenewRevives,
    InspectAcquires,
    LeaveStays,
    TokenReused,
    WaiterDrawsToken,
    RepeatDrawsToken,
    NameIsCut,
    NamespaceIsGlued,
    NeverExpires,
    LeaseToldTooLong,
    LeaseToldTooShort,
    RepeatKeepsOldLease,
    BadTtlIsClamped,
    WakeIsLost,
    NeverAsksAgain,
    LastComesFirst,
    DropGivesUpPlace,
    WaitHoldsTheConnection,
    WakeIsTakenForGrant,
    FullQueueAdmits,
    NotAppliedIsGuessed,
    KindIsIgnored,
    LossIsHidden,
    DurableIsClaimed,
    RestartSafeIsClaimed,
    PlaceIsNotReleased,
    LostRequestIsRepeated,
    StaleSessionIsTaken,
    SessionLossIsSilent,
    TokenIsOldAfterError,
    HeldIsOwnAfterError,
    ReleasesRunOut,
    TokensAreNotSpaced,
    RefusedRepeatIsCertain,
    DeadPlaceStays,
    RegisterFreshIsNotEmpty,
    RegisterIsText,
    RegisterCutsValues,
    RegisterIgnoresToken,
    RegisterIgnoresVersion,
    RegisterWantsGreaterToken,
    RegisterConflictComesFirst,
    RegisterWritesInTwoSteps,
    RegisterNameIsCut,
    RegisterNamespaceIsGlued,
    RegisterIsTheLocks,
    RegisterAgeIsTheFirst,
    RegisterEndsWithItsClient,
    FreedIsTakenForFree,
    NewcomerBarges,
    InspectIsDeniedAndAnswers,
    RenewKeepsOldLease,
    BusyIsReserved,
    AbsentIsReleased,
    GrantOnlyByMessage,
    HoldOfThePastIsTold,
    WaiterHoldsUpHolder,
    LeaseCountsFromLongAgo,
    LongLeaseStays,
    RenewalIsGuessed,
    NameIsAPrefix,
    TwoWoken,
    ReleasedWaitIsGranted,
    FirstUseRaces,
    ClockOfTheClient,
    LatePushIsBelieved,
}

impl Fault {
    /// Whether it is one of what a client remembers.
    pub(crate) fn is_recall(self) -> bool {
        self > Self::RegisterEndsWithItsClient
    }

    /// Checks that meet the fault or not, as their clients happen to run.
    pub(crate) fn leaves_to_chance(self) -> &'static [&'static str] {
        match self {
            // Contenders that do not hold may never wait for each other.
            Self::TwoWoken => &["token::rises_in_contention"],
            // Who freed the name last may be who gets it next.
            Self::FreedIsTakenForFree => &["exclusion::first_use"],
            // Of clients that come at once, all may be told that the name is held, and be refused from then on.
            Self::BusyIsReserved => &["exclusion::first_use"],
            // The next hold ends by its own silent session, before or after the check looks.
            Self::SessionLossIsSilent => &["frontend::late_clone_spares_the_next"],
            _ => &[],
        }
    }
}
