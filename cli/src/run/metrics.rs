//! The metrics of a run: a file for node_exporter, or a page for whoever scrapes.

use std::path::PathBuf;

use lockyard::metrics::{BUCKETS, Groups, Metrics as Series};
use lockyard::{Error, Event, LockName, Observer, Operation, Scheme};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::args::MetricsArgs;
use crate::exit::Failure;
use crate::output::Voice;
use crate::source::Source;

/// Where the metrics of this process go.
#[derive(Debug)]
pub(super) struct Metrics {
    handle: PrometheusHandle,
    file: Option<PathBuf>,
}

impl Metrics {
    /// Begins to serve them, where anybody asked for it. Call it inside the runtime, before a client is made.
    ///
    /// # Errors
    /// `Config` when the address cannot be listened to.
    pub(super) fn start(args: &MetricsArgs) -> Result<Option<Self>, Failure> {
        if args.metrics_file.is_none() && args.metrics_listen.is_none() {
            return Ok(None);
        }
        let mut builder = PrometheusBuilder::new();
        #[cfg(feature = "jobs")]
        let buckets = BUCKETS.into_iter().chain(lockyard_jobs::metrics::JobMetrics::BUCKETS);
        #[cfg(not(feature = "jobs"))]
        let buckets = BUCKETS;
        for (name, bounds) in buckets {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
                .map_err(|error| Failure::internal(format!("metrics: {error}")))?;
        }
        let recorder = match args.metrics_listen {
            None => builder.build_recorder(),
            Some(address) => {
                let (recorder, serving) = builder.with_http_listener(address).build().map_err(|error| {
                    Failure::config(format!("--metrics-listen {address}: cannot be listened to: {error}"))
                })?;
                // Ends with the process: what it serves is of this process alone.
                tokio::spawn(serving);
                recorder
            }
        };
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder)
            .map_err(|_| Failure::internal("metrics: there is a recorder already"))?;
        Ok(Some(Self { handle, file: args.metrics_file.clone() }))
    }

    /// What feeds them from the locks of this backend.
    #[expect(clippy::unused_self, reason = "without metrics that were started nobody would hear it")]
    pub(super) fn observer(&self, backend: &'static str) -> impl Observer {
        Series::new(backend, Groups::one())
    }

    /// Counts a connection that failed: there is no client that could tell.
    pub(super) fn not_connected(&self, source: &Source, name: &str, error: &Error) {
        let (Ok(scheme), Ok(name)) = (Scheme::of(source.url()), LockName::new(name)) else { return };
        let observer = self.observer(scheme.feature());
        observer.on_event(&Event::Asked { name: name.clone() });
        observer.on_event(&Event::Failed { name: None, operation: Operation::Connect, kind: error.kind() });
        observer.on_event(&Event::GaveUp { name, kind: error.kind(), waited: std::time::Duration::ZERO });
    }

    /// Writes the file in one step, where there is to be one.
    pub(super) fn write(&self, voice: Voice) {
        let Some(path) = &self.file else { return };
        if let Err(error) = super::replace::replace(path, &self.handle.render()) {
            let shown = path.display();
            // The command matters more than its figures.
            voice.warn(format_args!("cannot write {shown} (--metrics-file): {error}"));
        }
    }
}
