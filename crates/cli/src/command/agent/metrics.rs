//! The agent's metrics: options, the address they are served at, and the data of the page.

use super::session_filter::SessionFilter;
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::agent::metrics::serve::Server;
use kestrel::agent::metrics::text::Format;
use kestrel::agent::metrics::{Activity, Collector};
use kestrel::kernel::Host;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Options of the metrics.
#[derive(Args, Debug)]
pub(super) struct MetricsOptions {
    /// Address to serve metrics for Prometheus on, at /metrics: 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Allow an address that other machines can reach: there is neither encryption nor authentication
    #[arg(long, requires = "metrics")]
    metrics_anywhere: bool,
    /// Measure the run time of hooks: the kernel then times all BPF programs of the machine, at about 20 ns a run
    #[arg(long, requires = "metrics")]
    run_times: bool,
}

/// The address to serve metrics at; an error if other machines could reach it without `--metrics-anywhere`.
pub(super) fn address(options: &MetricsOptions) -> Option<Result<SocketAddr, String>> {
    let address = options.metrics?;
    let allowed = address.ip().is_loopback() || options.metrics_anywhere;
    let why = || format!("metrics at {address} could be read from other machines");
    Some(allowed.then_some(address).ok_or_else(why))
}

/// The running metrics server.
pub(super) struct Metrics {
    activity: Arc<Mutex<Activity>>,
    _server: Server,
}

impl Metrics {
    /// Starts the server if `--metrics` was given.
    pub(super) fn begin(
        options: &MetricsOptions,
        host: &Host,
        chosen: &SessionFilter,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = address(options) else {
            return Ok(None);
        };
        let address = address.map_err(|why| {
            let hint = "127.0.0.1 or [::1] is for this machine only; --metrics-anywhere allows it";
            Failure::new(Exit::Usage, why).hint(hint)
        })?;
        let collector = Collector::new(host, chosen.0.clone(), options.run_times)?;
        let activity: Arc<Mutex<Activity>> = Arc::default();
        let shared = Arc::clone(&activity);
        let page = move |format: Format| {
            let activity = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            collector.text(&activity, format)
        };
        let server = Server::begin(address, Arc::new(page))?;
        eprintln!("metrics at http://{}/metrics", server.address());
        Ok(Some(Self {
            activity,
            _server: server,
        }))
    }

    /// Sets the agent's own counts for the next request.
    pub(super) fn show(&self, activity: &Activity) {
        activity.clone_into(&mut self.activity.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
