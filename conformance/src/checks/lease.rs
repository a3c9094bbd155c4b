//! Clause 7: a lease ends at the server no earlier than the granted ttl and no later than it plus the slack.

use lockyard_api::{Claim, Clock, Liveness, Moment, Renewal};
use std::time::Duration;
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{POLL, acquire, busy, granted, renew, within};
use crate::stop::ensure;
use crate::{Checked, Client, Context, Stop};

checks! {
    7 lease: not_early, not_late, renew_extends, granted_not_less, fixed_ends, at_any_phase v2 alone,
    kept_over_restart alone
}

/// How a hold ended that nobody kept alive.
struct Takeover {
    /// The last moment from which the holder could count its lease.
    valid_from: Moment,
    /// From here on nothing of the holder reached the server.
    hung: Moment,
    ttl: Duration,
    /// When another got the name; it may never have.
    taken: Option<Moment>,
}

/// Hangs a holder and tries the name all the time until it is free.
async fn takeover(ctx: &Context, claim: Claim) -> Checked<Takeover> {
    let clients = ctx.two().await?;
    takeover_by(ctx, claim, clients).await
}

async fn takeover_by(ctx: &Context, claim: Claim, (a, b): (Client, Client)) -> Checked<Takeover> {
    let clock = ctx.clock();
    let grant = granted(a.lock.try_acquire(&claim).await?)?;
    let ttl = ctx.granted_ttl(&grant)?;
    if claim.renew == lockyard_api::Renew::Auto {
        ctx.hang(&a).await?;
    }
    let hung = clock.now();
    let next = Claim::new(claim.name.clone(), claim.ttl);
    // Twice as long as allowed: how late it was is for the check to say.
    let taken = acquire(&*b.lock, &next, ctx.takeover(ttl) * 2).await;
    let taken_at = clock.now();
    let valid_from = match &grant.liveness {
        Liveness::Session(watch) => watch.lease().0,
        _ => grant.valid_from,
    };
    ctx.unhang(&a).await;
    Ok(Takeover { valid_from, hung, ttl, taken: taken.is_ok().then_some(taken_at) })
}

impl Takeover {
    fn check_not_early(&self) -> Checked {
        let Some(after) = self.taken.map(|taken| taken.since(self.valid_from)) else { return Ok(()) };
        ensure!(after >= self.ttl, "a lease of {:?} was given to another after {after:?}", self.ttl);
        Ok(())
    }

    fn check_not_late(&self, limit: Duration) -> Checked {
        let after = self.taken.map(|taken| taken.since(self.hung));
        let right = after.is_some_and(|after| after <= limit);
        ensure!(
            right,
            "a lease of {:?} blocked others for {after:?} (none: for ever), allowed are {limit:?}",
            self.ttl
        );
        Ok(())
    }
}

async fn not_early(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    takeover(ctx, ctx.short(&ctx.name())).await?.check_not_early()
}

async fn not_late(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let it = takeover(ctx, ctx.short(&ctx.name())).await?;
    it.check_not_late(ctx.takeover(it.ttl))
}

/// Holders that fall silent at any moment of a second: none is followed early, none late (B55).
async fn at_any_phase(ctx: &Context) -> Checked {
    const HOLDERS: usize = 10;
    ctx.needs_expiry()?;
    let mut takeovers = JoinSet::new();
    let next = ctx.client().await?;
    for _ in 0..HOLDERS {
        let (ctx, clients) = (ctx.clone(), (ctx.client().await?, next.clone()));
        takeovers.spawn(async move {
            ctx.clock().sleep(Duration::from_millis(fastrand::u64(0..1000))).await;
            let it = takeover_by(&ctx, ctx.short(&ctx.name()), clients).await?;
            it.check_not_early()?;
            it.check_not_late(ctx.takeover(it.ttl))
        });
    }
    while let Some(ended) = takeovers.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a takeover ended by a panic: {panic}")))??;
    }
    Ok(())
}

async fn fixed_ends(ctx: &Context) -> Checked {
    ctx.needs(ctx.capabilities().fixed_lease, "no capability: fixed_lease")?;
    let it = takeover(ctx, ctx.short(&ctx.name()).fixed()).await?;
    it.check_not_early()?;
    it.check_not_late(ctx.takeover(it.ttl))
}

async fn renew_extends(ctx: &Context) -> Checked {
    ctx.needs_leases()?;
    let (a, b) = ctx.two().await?;
    let clock = ctx.clock();
    let claim = ctx.short(&ctx.name());
    let grant = granted(a.lock.try_acquire(&claim).await?)?;
    let ttl = ctx.granted_ttl(&grant)?;
    let mut valid_from = grant.valid_from;
    while clock.now().since(grant.valid_from) < ttl * 5 / 2 {
        clock.sleep_until(valid_from.plus(ttl / 4)).await;
        let sent = clock.now();
        let renewal = a.lock.renew(&claim).await?;
        if sent >= valid_from.plus(ttl) {
            return Err(Stop::ignored("the machine is too slow for a ttl this short"));
        }
        valid_from = renewed(renewal, valid_from, ttl)?;
        let attempt = b.lock.try_acquire(&ctx.claim(&claim.name)).await?;
        if clock.now() >= valid_from.plus(ttl) {
            return Err(Stop::ignored("the machine is too slow for a ttl this short"));
        }
        busy(attempt)?;
    }
    Ok(())
}

/// A renewal that may have reached the server after the end of the lease proves nothing.
fn renewed(renewal: Renewal, last: Moment, granted: Duration) -> Checked<Moment> {
    match renewal {
        Renewal::Renewed { ttl, valid_from } => {
            ensure!(ttl >= granted, "renewed for {ttl:?}, granted were {granted:?}");
            ensure!(valid_from > last, "the renewed lease did not start anew");
            Ok(valid_from)
        }
        _ if Clock::system().now() >= last.plus(granted) => {
            Err(Stop::ignored("the machine is too slow for a ttl this short"))
        }
        other => Err(Stop::failed(format_args!("the lease had time left and renew answered {other:?}"))),
    }
}

async fn granted_not_less(ctx: &Context) -> Checked {
    ctx.needs_leases()?;
    let a = ctx.client().await?;
    let range = ctx.capabilities().ttl;
    let base = ctx.harness().ttl();
    let odd = base + base / 3 + Duration::from_nanos(1);
    for ttl in [range.min, base, odd, ctx.long_ttl(), range.max].into_iter().filter(|ttl| range.check(*ttl).is_ok()) {
        let claim = Claim::new(ctx.name(), ttl);
        let grant = granted(a.lock.try_acquire(&claim).await?)?;
        let got = ctx.granted_ttl(&grant)?;
        ensure!(got >= ttl, "asked for {ttl:?}, granted {got:?}");
        a.lock.release(&claim).await?;
    }
    Ok(())
}

async fn kept_over_restart(ctx: &Context) -> Checked {
    ctx.needs(ctx.capabilities().restart_safe, "no capability: restart_safe")?;
    let (a, b) = ctx.two().await?;
    let claim = ctx.claim(&ctx.name());
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&claim).await?)?)?;
    let killed = ctx.clock().now();
    ctx.harness().kill_server().await.made()?;
    ctx.harness().restart_server().await.made()?;
    within(ctx.harness().op_timeout() + ctx.patience(), "the restarted server should answer", kept(ctx, &b, &claim))
        .await?;
    let renewal = renew(ctx, &*a.lock, &claim).await?;
    if let Renewal::Renewed { .. } = renewal {
        return Ok(());
    }
    // Nobody could renew while there was no server.
    ctx.needs(ctx.clock().now().since(killed) < ttl, "the restart took longer than the lease")?;
    Err(Stop::failed(format_args!("the restart should have kept the hold, renew answered {renewal:?}")))
}

/// Another is refused as soon as the server answers again.
async fn kept(ctx: &Context, other: &Client, claim: &Claim) -> Checked {
    loop {
        match other.lock.try_acquire(&ctx.claim(&claim.name)).await {
            Ok(attempt) => return busy(attempt),
            Err(error) if error.kind().is_transient() => ctx.clock().sleep(POLL).await,
            Err(error) => return Err(error.into()),
        }
    }
}
