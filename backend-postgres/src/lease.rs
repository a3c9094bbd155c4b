//! Lease mode: a table row for each name, with owner, token and expiry.
//!
//! Who gives a name back hands it to the first waiter that lives, in the same statement, and tells that waiter alone.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Error, ErrorKind, Fencing, FencingToken, Grant, Holder, IfBusy, Liveness, LockName,
    Moment, Owner, Release, Renewal, Result, TtlRange, Wake, Waking,
};
use tokio::runtime::Handle;

use crate::config::PostgresConfig;
use crate::control::{Backend, Control, column};
use crate::lines::{Answer, Lines, OnBreak, Path};
use crate::mailbox::Mailbox;
use crate::renewals::Renewals;
use crate::schema::Schema;
use crate::sentence::{Sentence, Value};

/// The ttls of this mode; nothing but the server's clock limits them.
const RANGE: TtlRange =
    TtlRange::new(Duration::from_millis(50), Duration::from_secs(24 * 3600), Duration::from_millis(1));
/// How long a waiter sleeps at most.
const RECHECK: Duration = Duration::from_secs(15);
/// How long a waiter sleeps at most where nobody can tell it anything.
const POLL: Duration = Duration::from_millis(250);

/// The client in lease mode.
pub(crate) struct Lease {
    config: PostgresConfig,
    control: Arc<Control>,
    lines: Arc<Lines>,
    renewals: Renewals,
    mailbox: Mailbox,
    namespace: Arc<str>,
    origin: Arc<str>,
    sql: Sql,
    runtime: Handle,
}

/// A free name that has a row is taken without a call of the function, which is not cheap. The row is locked
/// first, and found by its place: what is drawn and read of the clock is so after the wait for it, and a row that changed in that
/// time is not found, and left to the function.
const TAKE: &str = "WITH free AS (UPDATE {schema}.lease l SET token = nextval({draw})::{schema}.token, since = clock_timestamp(), \
        owner = $3, expires_at = clock_timestamp() + $4::int8 * interval '1 millisecond', label = $5, origin = $6 \
        WHERE l.ctid = (SELECT k.ctid FROM {schema}.lease k WHERE k.namespace = $1 AND k.name = $2 \
            AND k.expires_at <= clock_timestamp() AND $7::text IS NULL FOR NO KEY UPDATE) \
        RETURNING l.token) \
    SELECT 1, token, $4::int8, 0::int8 FROM free UNION ALL \
    SELECT t.outcome, t.number, t.rest, t.ahead FROM {schema}.take_lease_6($1, $2, $3, $4, $5, $6, $7, $8, $9) t \
        WHERE NOT EXISTS (SELECT FROM free)";
/// A hold is given back without a call of the function, unless somebody may wait: whoever queues writes `queued`.
const GIVE: &str = "UPDATE {schema}.lease l SET expires_at = '-infinity' WHERE l.namespace = $1 AND l.name = $2 \
        AND l.owner = $3 AND l.expires_at > clock_timestamp() \
    RETURNING CASE WHEN l.queued THEN {schema}.hand_over_1(l.namespace, l.name) ELSE 2 END";
/// What has no hold may have a place in the queue.
const GIVE_UP: &str = "SELECT {schema}.give_lease_3($1, $2, $3)";

struct Sql {
    take: Arc<str>,
    give: Arc<str>,
    give_up: Arc<str>,
    inspect: Arc<str>,
}

impl Sql {
    fn new(schema: &Schema) -> Self {
        let fill = |template: &str| Arc::from(schema.fill(template));
        Self {
            take: fill(TAKE),
            give: fill(GIVE),
            give_up: fill(GIVE_UP),
            inspect: fill(
                "SELECT l.owner, l.token, l.label, l.origin, \
                 (extract(epoch FROM clock_timestamp() - l.since) * 1000)::int8, \
                 (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000)::int8, \
                 (SELECT count(*) FROM {schema}.waiter w WHERE w.namespace = l.namespace AND w.name = l.name \
                 AND w.expires_at > clock_timestamp()) \
                 FROM {schema}.lease l WHERE l.namespace = $1 AND l.name = $2 AND l.expires_at > clock_timestamp()",
            ),
        }
    }
}

/// What the server answered to an attempt.
struct Taken {
    sent: Moment,
    token: Option<FencingToken>,
    /// Of who holds the name, when the claim was queued.
    others: Option<FencingToken>,
    rest: Duration,
    ahead: u32,
}

impl Lease {
    pub(crate) async fn connect(config: PostgresConfig, control: Arc<Control>) -> Result<Arc<Self>> {
        RANGE.check(config.options.ttl)?;
        let lines = Arc::new(Lines::connect(&config).await?);
        let renewals = Renewals::new(&config, Arc::clone(&lines));
        let mailbox = Mailbox::new(&config);
        let namespace = config.options.namespace.as_str().into();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let origin = format!("{host} process {}", std::process::id()).into();
        let sql = Sql::new(&Schema::from(&config));
        let runtime = Handle::current();
        Ok(Arc::new(Self { config, control, lines, renewals, mailbox, namespace, origin, sql, runtime }))
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("postgres-lease", RANGE);
        capabilities.wake = if self.is_told() { Waking::Pushed } else { Waking::Polled };
        capabilities.fencing = Fencing::Durable;
        capabilities.expires_hung = true;
        capabilities.restart_safe = true;
        capabilities.recheck = RECHECK;
        capabilities.fixed_lease = true;
        capabilities.inspect = true;
        capabilities
    }

    fn is_told(&self) -> bool {
        self.lines.path == Path::Direct
    }

    fn about(&self, name: &LockName, owner: Owner) -> Vec<Value> {
        let (name, owner) = (Arc::from(name.as_str()), Arc::from(owner.to_string().as_str()));
        vec![Value::Text(Arc::clone(&self.namespace)), Value::Text(name), Value::Text(owner)]
    }

    pub(crate) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let queued_before = self.mailbox.expects(claim.owner);
        if !queued_before {
            let taken = self.take(claim, None).await?;
            if let Some(token) = taken.token {
                return Ok(Attempt::Granted(grant(token, taken.sent, claim)));
            }
            if claim.if_busy == IfBusy::Leave {
                return Ok(Attempt::Busy);
            }
        }
        // What the server may know of an earlier request is not undone by the failure of this one.
        Box::pin(self.queue(claim)).await.map_err(|error| if queued_before { unknown(error) } else { error })
    }

    async fn queue(&self, claim: &Claim) -> Result<Attempt> {
        let listener =
            if self.is_told() { Some(self.mailbox.listen().await.map_err(Error::not_applied)?) } else { None };
        self.mailbox.expect(claim.owner, self.config.options.clock.now());
        let taken = self.take(claim, Some(listener)).await?;
        if let Some(token) = taken.token {
            self.mailbox.forget(claim.owner);
            return Ok(Attempt::Granted(grant(token, taken.sent, claim)));
        }
        self.mailbox.waits(claim.owner, taken.sent, taken.others, self.ask_again(claim, &taken));
        Ok(Attempt::Queued)
    }

    /// One waiter after the other asks when the lease that it saw has run out; before that, each from time to time.
    fn ask_again(&self, claim: &Claim, taken: &Taken) -> Moment {
        let refresh = claim.ttl.mul_f64(0.4).min(RECHECK);
        let refresh = if self.is_told() { refresh } else { refresh.min(POLL) };
        let jittered = refresh.mul_f64(0.8 + 0.2 * fastrand::f64());
        let expiry = taken.rest + Duration::from_millis(1) + Duration::from_millis(5) * taken.ahead.min(200);
        self.config.options.clock.now().plus(jittered.min(expiry))
    }

    /// `queue`: `None` leaves nothing when busy; `Some` takes a place, told through this listener.
    async fn take(&self, claim: &Claim, queue: Option<Option<Backend>>) -> Result<Taken> {
        let mut values = self.about(&claim.name, claim.owner);
        values.push(Value::Big(millis(claim.ttl)));
        values.push(Value::MaybeText(claim.label.clone()));
        values.push(Value::Text(Arc::clone(&self.origin)));
        let channel = queue.map(|listener| listener.map_or_else(|| "".into(), |_| Arc::clone(self.mailbox.channel())));
        let listener = queue.flatten().unwrap_or(Backend { pid: 0, started: 0 });
        values.extend([Value::MaybeText(channel), Value::Int(listener.pid), Value::Big(listener.started)]);
        let sentence = Sentence { sql: Arc::clone(&self.sql.take), values };
        // Owner-conditional: sent twice, it finds its own hold.
        let Answer { row, sent } = self.lines.run(&sentence, OnBreak::Repeat, "taking a lease").await?;
        let number = column::<Option<i64>>(&row, 1)?.map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        let (token, others) = match (column::<i32>(&row, 0)?, number.map(FencingToken::from_server).transpose()?) {
            (1, None) => return Err(Error::new(ErrorKind::Protocol, "the server granted a lease without a number")),
            (1, token) => (token, None),
            (_, others) => (None, others),
        };
        let rest = column::<Option<i64>>(&row, 2)?.and_then(|rest| u64::try_from(rest).ok()).unwrap_or(0);
        let ahead = u32::try_from(column::<i64>(&row, 3)?).unwrap_or(u32::MAX);
        Ok(Taken { sent, token, others, rest: Duration::from_millis(rest), ahead })
    }

    pub(crate) async fn wait(&self, claim: &Claim) -> Result<Wake> {
        if !self.mailbox.wait(claim.owner).await {
            return Ok(Wake::Retry);
        }
        let Some((token, sent)) = self.mailbox.granted(claim.owner) else { return Ok(Wake::Retry) };
        self.mailbox.forget(claim.owner);
        Ok(Wake::Granted(grant(token, sent, claim)))
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        Ok(match self.renewals.renew(&claim.name, claim.owner, millis(claim.ttl)).await? {
            Some(valid_from) => Renewal::Renewed { ttl: granted_ttl(claim), valid_from },
            None => Renewal::Lost,
        })
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Release> {
        const DOING: &str = "releasing a lease";
        let sentence = |sql| Sentence { sql: Arc::clone(sql), values: self.about(&claim.name, claim.owner) };
        let mut answer = None;
        if !self.mailbox.expects(claim.owner) {
            answer = self.lines.ask(&sentence(&self.sql.give), OnBreak::Tell, DOING).await?.row;
        }
        let row = match answer {
            Some(row) => row,
            None => self.lines.run(&sentence(&self.sql.give_up), OnBreak::Tell, DOING).await?.row,
        };
        self.mailbox.forget(claim.owner);
        Ok(if column::<i32>(&row, 0)? > 0 { Release::Released } else { Release::NotHeld })
    }

    pub(crate) async fn inspect(self: &Arc<Self>, name: &LockName) -> Result<Option<Holder>> {
        let (client, name) = (Arc::clone(self), name.clone());
        // On a task: the side connection must not wait for a caller who keeps this future without polling it.
        let looked = self.runtime.spawn(async move { client.look(&name).await }).await;
        looked.map_err(|failed| Error::new(ErrorKind::Shutdown, "the runtime is shutting down").with_source(failed))?
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holder>> {
        let sentence = Sentence { sql: Arc::clone(&self.sql.inspect), values: self.about(name, Owner::from_bits(0)) };
        let Some(row) = self.control.look(&sentence, self.lines.path, "inspecting").await? else { return Ok(None) };
        let mut holder = Holder::new();
        holder.owner = Owner::parse(column::<&str>(&row, 0)?);
        holder.token = column::<Option<i64>>(&row, 1)?
            .and_then(|number| u64::try_from(number).ok())
            .map(FencingToken::from_server)
            .transpose()?;
        holder.label = column::<Option<String>>(&row, 2)?.map(Arc::from);
        holder.origin = column(&row, 3)?;
        holder.held_for = Some(duration(column(&row, 4)?));
        holder.expires_in = Some(duration(column(&row, 5)?));
        holder.waiters = u64::try_from(column::<i64>(&row, 6)?).ok();
        Ok(Some(holder))
    }
}

fn grant(token: FencingToken, valid_from: Moment, claim: &Claim) -> Grant {
    Grant::new(Some(token), valid_from, Liveness::Lease { ttl: granted_ttl(claim) })
}

fn granted_ttl(claim: &Claim) -> Duration {
    RANGE.round_up(claim.ttl)
}

fn millis(ttl: Duration) -> i64 {
    i64::try_from(RANGE.round_up(ttl).as_millis()).unwrap_or(i64::MAX)
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The same error without its certainty.
fn unknown(error: Error) -> Error {
    let (kind, message) = (error.kind(), error.message().to_owned());
    Error::new(kind, message).with_source(error)
}
