//! Every backend that can be started here, as a target.

use std::sync::Arc;

use lockyard_benches::{Connect, Target};
use lockyard_testbed::{Options, Server, Service};

/// id, mode, and what its URL needs behind the namespace.
type Mode = (&'static str, &'static str, &'static str);

const fn modes(service: Service) -> &'static [Mode] {
    match service {
        Service::Redis => &[("redis", "single", "")],
        // A session for each hold: as many as the largest scenario has.
        Service::Postgres => &[
            ("postgres-advisory", "advisory", "&lock=advisory"),
            ("postgres-row", "row", "&lock=row&max_sessions=64"),
            ("postgres-lease", "lease", "&lock=lease"),
        ],
        Service::Etcd => &[("etcd", "lease", "")],
        Service::Zookeeper => &[("zookeeper", "session", "")],
        _ => &[],
    }
}

/// The targets, and the directory of the file backend, which goes with them.
pub(crate) struct Started {
    pub(crate) targets: Vec<Target>,
    _files: tempfile::TempDir,
}

/// Opens clients of a URL.
pub(crate) fn connect(url: &str) -> Connect {
    let url = url.to_owned();
    Arc::new(move || {
        let url = url.clone();
        Box::pin(async move { lockyard::connect_backend(&url).await })
    })
}

/// The targets whose ids begin with one of `wanted` (all when it is empty), with servers that count where `counting`.
/// What cannot be started is said on stderr.
pub(crate) async fn start(wanted: &[String], counting: bool) -> Started {
    let is_wanted = |id: &str| wanted.is_empty() || wanted.iter().any(|word| id.starts_with(word.as_str()));
    let namespace = format!("bench-{:08x}", fastrand::u32(..));
    let files = tempfile::tempdir().expect("a temporary directory");
    let file = format!("file:{}", files.path().display());
    let mut targets = Vec::new();
    for (id, url) in [("memory", format!("memory://{namespace}")), ("file", file)] {
        if is_wanted(id) {
            targets.push(Target::new(id, id, "local", &url, connect(&url)));
        }
    }
    for service in Service::ALL {
        let modes: Vec<_> = modes(service).iter().filter(|(id, ..)| is_wanted(id)).collect();
        if modes.is_empty() {
            continue;
        }
        let Ok(Some(server)) = Server::start_or_skip(service).await else { continue };
        let server = Arc::new(server);
        for (id, mode, query) in modes {
            let at = |server: &Server| format!("{}?namespace={namespace}{query}", server.lock_url());
            let url = at(&server);
            let mut target = Target::new(id, service.id(), mode, &url, connect(&url)).with_server(Arc::clone(&server));
            if counting && let Ok(counted) = Server::start_with(service, Options::new().native_only().counting()).await
            {
                let url = at(&counted);
                target = target.with_counted(Arc::new(counted), &url, connect(&url));
            }
            targets.push(target);
        }
    }
    Started { targets, _files: files }
}
