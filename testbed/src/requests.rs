//! How many requests of clients a server has executed, by its own account.

use std::collections::BTreeMap;

use crate::launch::LOG_PREFIX;

/// Requests by method, since the server process was started.
///
/// | service | method | counted are |
/// |---|---|---|
/// | Redis | `evalsha`, `set`, `subscribe`, … | commands of clients; not those inside scripts, administrative ones (`CLIENT KILL`, `CONFIG`) or `AUTH` |
/// | Postgres | `statement`, `execute`, `parse`, `bind`, `fastpath` | simple queries; the steps of the extended protocol, of which `execute` runs the statement |
/// | Postgres | `ping`, `heartbeat` | of these, `SELECT 1` and what a session asks about its own locks in `pg_locks` |
/// | etcd | `Txn`, `Range`, `Watch`, `LeaseKeepAlive`, … | messages received, so that each keep-alive and each watch of a stream counts |
/// | ZooKeeper | `create`, `delete`, `getChildren2`, `ping`, `createSession`, … | requests; `closeSession` also when the server ends a session |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// The requests of one method.
    #[must_use]
    pub fn of(&self, method: &str) -> u64 {
        self.0.get(method).copied().unwrap_or_default()
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// All requests but those of `methods`: `&["parse", "bind"]` leaves the statements of Postgres, `&["ping"]` the work of ZooKeeper.
    #[must_use]
    pub fn total_without(&self, methods: &[&str]) -> u64 {
        self.iter().filter(|(method, _)| !methods.contains(method)).map(|(_, count)| count).sum()
    }

    /// What was added since `earlier`, an account of the same server without a restart in between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = self.iter().map(|(method, count)| (method.to_owned(), count.saturating_sub(earlier.of(method))));
        Self(added.filter(|(_, count)| *count > 0).collect())
    }

    /// The methods in alphabetical order with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(method, count)| (method.as_str(), *count))
    }

    pub(crate) fn add(&mut self, method: &str, count: u64) {
        *self.0.entry(method.to_owned()).or_default() += count;
    }

    /// Of the log of a server with `log_statement=all` and `log_min_duration_statement=0`
    /// (<https://www.postgresql.org/docs/15/runtime-config-logging.html>), which writes `statement` and `execute` before, `parse` and
    /// `bind` after the step, and always before the answer.
    pub(crate) fn of_postgres_log(log: &str) -> Self {
        let mut requests = Self::default();
        let entries = log.lines().filter_map(|line| line.strip_prefix(LOG_PREFIX)?.strip_prefix("LOG:  "));
        for entry in entries {
            let step = match entry.strip_prefix("duration: ") {
                Some(timed) => timed.split_once(" ms  ").map_or("", |(_, step)| step),
                None => entry,
            };
            let method = step.split([' ', ':']).next().unwrap_or_default();
            match method {
                "statement" | "execute" => requests.add(what_for(method, step), 1),
                "parse" | "bind" | "fastpath" => requests.add(method, 1),
                _ => {}
            }
        }
        requests
    }

    /// Of the log of a server whose `FinalRequestProcessor` logs at level debug.
    pub(crate) fn of_zookeeper_log(log: &str) -> Self {
        let mut requests = Self::default();
        for line in log.lines() {
            let method =
                line.split_once("Processing request:: ").and_then(|(_, request)| word_after(request, " type:"));
            if let Some(method) = method {
                requests.add(method, 1);
            }
        }
        requests
    }

    /// Of `/metrics` (<https://etcd.io/docs/v3.4/metrics/>).
    pub(crate) fn of_etcd_metrics(metrics: &str) -> Self {
        let mut requests = Self::default();
        for line in metrics.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{")) {
            let method = line.split_once("grpc_method=\"").and_then(|(_, rest)| rest.split('"').next());
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
            if let (Some(method), Some(count)) = (method, count)
                && count >= 1.0
            {
                requests.add(method, whole(count));
            }
        }
        requests
    }
}

/// A statement of Postgres under a name of its own when it only asks whether the server, or what a session holds, is there.
fn what_for<'a>(method: &'a str, step: &str) -> &'a str {
    let text = step.split_once(": ").map_or("", |(_, text)| text).trim();
    if text.eq_ignore_ascii_case("select 1") {
        "ping"
    } else if text.contains("FROM pg_locks WHERE pid = pg_backend_pid()") || text == "SELECT pg_backend_pid()" {
        "heartbeat"
    } else {
        method
    }
}

/// Prometheus writes counters as floating-point numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a counter is a whole number from 1 on, far below 2^53"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

fn word_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.split_once(label)?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_leave_out_what_is_named() {
        let mut earlier = Requests::default();
        earlier.add("ping", 3);
        let mut later = earlier.clone();
        later.add("ping", 1);
        later.add("create", 2);
        let added = later.since(&earlier);
        assert_eq!((added.total(), added.total_without(&["ping"]), added.of("delete")), (3, 2, 0));
        assert_eq!(later.since(&later), Requests::default());
    }

    #[test]
    fn postgres_log_lines_are_counted_once() {
        let log = "lockyard-testbed: LOG:  statement: select 1;\n\tLOG:  statement: not me\n\
                   lockyard-testbed: LOG:  duration: 0.2 ms\n\
                   lockyard-testbed: LOG:  duration: 0.1 ms  parse P_0: select 5;\n\
                   lockyard-testbed: LOG:  duration: 0.1 ms  bind P_0: select 5;\n\
                   lockyard-testbed: LOG:  execute P_0: select 5;\n\
                   lockyard-testbed: LOG:  duration: 0.1 ms\n\
                   lockyard-testbed: LOG:  database system is ready to accept connections\n\
                   lockyard-testbed: ERROR:  division by zero\nlockyard-testbed: STATEMENT:  select 1/0\n";
        let requests = Requests::of_postgres_log(log);
        let counted: Vec<_> = requests.iter().collect();
        assert_eq!(counted, [("bind", 1), ("execute", 1), ("parse", 1), ("statement", 1)]);
        let kept = "lockyard-testbed: LOG:  execute s_1: SELECT 1\n\
                    lockyard-testbed: LOG:  execute s_2: SELECT pid FROM pg_locks WHERE pid = pg_backend_pid() AND granted\n\
                    lockyard-testbed: LOG:  statement: SELECT pg_backend_pid()\n";
        let counted = Requests::of_postgres_log(kept);
        assert_eq!(counted.iter().collect::<Vec<_>>(), [("heartbeat", 2), ("ping", 1)]);
    }

    #[test]
    fn zookeeper_and_etcd_name_their_methods() {
        let log = "[SyncThread:0] DEBUG x - Processing request:: sessionid:0x1 type:create cxid:0x1 zxid:0x2 txntype:1 reqpath:n/a\n\
                   [NIOWorkerThread-1] INFO x - Processing srvr command from /127.0.0.1:1\n";
        assert_eq!(Requests::of_zookeeper_log(log).iter().collect::<Vec<_>>(), [("create", 1)]);
        let metrics = "grpc_server_msg_received_total{grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 1.5e+01\n\
                       grpc_server_msg_received_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 0\n";
        assert_eq!(Requests::of_etcd_metrics(metrics).iter().collect::<Vec<_>>(), [("Put", 15)]);
    }
}
