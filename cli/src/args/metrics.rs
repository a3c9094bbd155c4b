//! Where metrics go.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Where metrics go, in the text format of Prometheus.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Write metrics to this file, for the textfile collector of node_exporter: PATH ends in .prom
    #[arg(long, value_name = "PATH")]
    pub(crate) metrics_file: Option<PathBuf>,

    /// Serve metrics over HTTP on this address while the command runs, 127.0.0.1:9100 for one
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<SocketAddr>,
}
