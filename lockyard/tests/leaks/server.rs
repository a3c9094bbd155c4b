//! What a server has for its clients, by its own account.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use etcd_client::{Client, GetOptions};
use lockyard_testbed::{Server, Service};
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Checked;

pub(crate) type Numbers = BTreeMap<&'static str, u64>;

/// The accounts of one server. A connection is opened for each look, so that none counts itself twice.
#[lockyard::async_trait]
pub(crate) trait Counts: Send + Sync {
    /// What has to come back: connections, subscriptions, watches, queue entries, locks.
    async fn left(&self) -> Checked<Numbers>;
    /// How many more connections two clients may open when they first need them: far fewer than one in each cycle.
    fn reserve(&self) -> usize {
        0
    }
    /// How many more tasks they may have then.
    fn reserve_of_tasks(&self) -> usize {
        2 * self.reserve()
    }
    /// What stays by design: counters, and records that a reaper removes later.
    async fn kept(&self) -> Checked<Numbers>;
}

pub(crate) struct Nothing;

#[lockyard::async_trait]
impl Counts for Nothing {
    async fn left(&self) -> Checked<Numbers> {
        Ok(Numbers::new())
    }

    async fn kept(&self) -> Checked<Numbers> {
        Ok(Numbers::new())
    }
}

pub(crate) fn of(server: &Server) -> Checked<Box<dyn Counts>> {
    let addr = server.addr();
    Ok(match server.service() {
        Service::Redis => Box::new(Redis(redis::Client::open(server.url())?)),
        Service::Postgres => Box::new(Postgres(server.url())),
        Service::Etcd => Box::new(Etcd(addr)),
        _ => Box::new(Zookeeper(addr)),
    })
}

struct Redis(redis::Client);

impl Redis {
    async fn keys(&self, pattern: &str) -> Checked<u64> {
        let mut connection = self.0.get_multiplexed_async_connection().await?;
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await?;
        Ok(keys.len().try_into()?)
    }
}

#[lockyard::async_trait]
impl Counts for Redis {
    async fn left(&self) -> Checked<Numbers> {
        let mut connection = self.0.get_multiplexed_async_connection().await?;
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut connection).await?;
        let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").arg("*").query_async(&mut connection).await?;
        Ok([
            ("connections", clients.lines().count().try_into()?),
            ("channels", channels.len().try_into()?),
            ("locks", self.keys("lockyard:*").await?),
            ("queues", self.keys("*:queue").await?),
            ("records", self.keys("*:meta").await?),
        ]
        .into())
    }

    async fn kept(&self) -> Checked<Numbers> {
        Ok([("counters, for 30 days", self.keys("*:token").await?)].into())
    }
}

struct Postgres(String);

impl Postgres {
    async fn one(&self, sql: &'static str) -> Checked<u64> {
        let mut connection = PgConnection::connect(&self.0).await?;
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(count.try_into()?)
    }
}

#[lockyard::async_trait]
impl Counts for Postgres {
    async fn left(&self) -> Checked<Numbers> {
        Ok([
            ("locks", self.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").await?),
            (
                "connections",
                self.one("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lockyard%'").await?,
            ),
        ]
        .into())
    }

    /// Up to four sessions that are shared and one that is spare, each.
    fn reserve(&self) -> usize {
        2 * 5
    }

    async fn kept(&self) -> Checked<Numbers> {
        let rows = "SELECT (SELECT count(*) FROM lockyard.lease) + (SELECT count(*) FROM lockyard.row)";
        Ok([("rows of names", self.one(rows).await?)].into())
    }
}

struct Etcd(SocketAddr);

#[lockyard::async_trait]
impl Counts for Etcd {
    async fn left(&self) -> Checked<Numbers> {
        let mut client = Client::connect([self.0.to_string()], None).await?;
        let all = client.get("\0", Some(GetOptions::new().with_from_key().with_count_only())).await?;
        let metrics = ask(self.0, "GET /metrics HTTP/1.0\r\n\r\n").await?;
        let leases = client.leases().await?.leases().len();
        Ok([
            ("keys", all.count().try_into()?),
            ("watches", number(&metrics, "etcd_debugging_mvcc_watcher_total ")?),
            ("leases", leases.try_into()?),
        ]
        .into())
    }

    /// The stream of keep-alives, which the first of them opens a third of the ttl after the session began.
    fn reserve_of_tasks(&self) -> usize {
        2
    }

    async fn kept(&self) -> Checked<Numbers> {
        Ok(Numbers::new())
    }
}

struct Zookeeper(SocketAddr);

#[lockyard::async_trait]
impl Counts for Zookeeper {
    async fn left(&self) -> Checked<Numbers> {
        let told = ask(self.0, "mntr").await?;
        let of = |what: &str| number(&told, what);
        Ok([
            ("connections", of("zk_num_alive_connections\t")?),
            ("watches", of("zk_watch_count\t")?),
            ("ephemeral nodes", of("zk_ephemerals_count\t")?),
        ]
        .into())
    }

    async fn kept(&self) -> Checked<Numbers> {
        let told = ask(self.0, "mntr").await?;
        Ok([("nodes, containers among them until the server reaps them", number(&told, "zk_znode_count\t")?)].into())
    }
}

async fn ask(addr: SocketAddr, question: &str) -> Checked<String> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(question.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The number of the line that begins so.
fn number(text: &str, line: &str) -> Checked<u64> {
    let found = text.lines().find_map(|it| it.strip_prefix(line)).ok_or_else(|| format!("no line {line:?}"))?;
    // Prometheus writes large numbers as 1e+06.
    Ok(format!("{:.0}", found.trim().parse::<f64>()?).parse()?)
}
