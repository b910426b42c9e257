//! Wires a relay together, and takes it down in order. The only file that knows every part.
//!
//! ```text
//! Config ─> material (identity, bundle) ─> Relay ─> admin socket ─> UDP socket ─> `ready(address)`
//!                                                       └ follow changes     └ listen ─> admit ─> client │ control
//! stop ─> draining: readiness off, nothing new, DRAIN to agents ─> streams end, `drain` is over, or told again ─> closed with a code
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use noderelay_link::Restart;
use noderelay_pki::tls::Leg;
use noderelay_proto::{Code, version};
use noderelay_service::{Admin, Health};
use quinn::Endpoint;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::admin;
use crate::admit;
use crate::attached::Registry;
use crate::config::Config;
use crate::gate::Gate;
use crate::listen;
use crate::material::{self, Material};
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::refusals::Refusals;
use crate::stalled::{PATIENCE, Stalled};
use crate::state::{Relay, Stop, now};
use crate::wire::wire;

/// For the last packets to leave after everything is closed; a peer that misses them runs into its idle limit.
const FAREWELL: Duration = Duration::from_secs(1);

/// The part of readiness that goes first when the relay stops.
const DRAINING: &str = "draining";

/// A stop at the first SIGTERM or SIGINT, which cuts what still runs at the second one.
pub fn stop_on_signals() -> std::io::Result<Stop> {
    let stop = Stop::default();
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let words = [stop.soft.clone(), stop.hard.clone()];
    tokio::spawn(async move {
        for word in words {
            let signal = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            info!(signal, "asked to stop");
            word.cancel();
        }
    });
    Ok(stop)
}

/// Runs a relay until `stop` says so, then drains it. `ready` is called once with the address that it listens on.
pub async fn run(config: Config, ready: impl FnOnce(SocketAddr), stop: Stop) -> anyhow::Result<()> {
    let (material, start) = Material::open(&config, now()).await?;
    let identity = start.party.credentials.get().identity().to_string();
    let relay = Arc::new(Relay {
        name: start.name,
        timing: config.timing.clone(),
        party: start.party,
        map: start.map,
        trust_changes: Default::default(),
        registry: Registry::new(),
        gate: Gate::new(config.limits.gate()),
        quotas: Quotas::new(config.limits.quotas()),
        stalled: Stalled::new(config.limits.stalled_streams as usize, PATIENCE),
        refusals: Refusals::default(),
        metrics: Metrics::new(),
        health: Health::new(&["listener", material::IDENTITY, material::BUNDLE, DRAINING]),
        stop,
        streams: TaskTracker::new(),
    });
    material.tell(&relay, now());
    let admin = config.admin.as_deref().map(Admin::bind).transpose()?;
    let endpoint = listen_on(&relay, &config)?;
    let address = endpoint.local_addr().context("the UDP socket has no address")?;

    let mut helpers = JoinSet::new();
    helpers.spawn(follow(relay.clone(), material));
    if let Some(admin) = admin {
        let serving = admin.serve(relay.clone(), admin::routes(relay.clone()), relay.stop.hard.clone());
        helpers.spawn(async move {
            if let Err(cause) = serving.await {
                tracing::error!(%cause, "the admin socket failed");
            }
        });
    }
    let mut serving = tokio::spawn(listen::serve(relay.clone(), endpoint.clone()));
    info!(%address, %identity, software = crate::software(), "relay ready");
    ready(address);

    tokio::select! {
        biased;
        () = relay.stop.soft.cancelled() => {}
        ended = &mut serving => {
            ended.context("the listener failed")?;
            anyhow::bail!("the UDP socket {address} ended by itself");
        }
    }
    drain(&relay, &endpoint, &mut serving).await;
    helpers.shutdown().await;
    relay.refusals.report_all(Instant::now());
    Ok(())
}

async fn drain(relay: &Relay, endpoint: &Endpoint, serving: &mut tokio::task::JoinHandle<()>) {
    let bound = relay.timing.drain.duration();
    info!(
        seconds = bound.as_secs_f64(),
        streams = relay.streams.len(),
        "stopping: open streams may end by themselves"
    );
    relay.metrics.draining.set(1);
    relay
        .health
        .set(DRAINING, Some("the relay was asked to stop".to_owned()));
    relay.streams.close();
    let left = match timeout(bound, &mut *serving).await {
        Ok(_) => 0,
        Err(_) => relay.streams.len(),
    };
    relay.stop.hard.cancel();
    if left > 0 {
        info!(streams = left, "stopping: the streams that are left are cut");
        // Each task ends at that word.
        let _ = timeout(FAREWELL, serving).await;
    }
    endpoint.close(wire(Code::RelayDraining), b"");
    if timeout(FAREWELL, endpoint.wait_idle()).await.is_err() {
        tracing::debug!("some peers did not hear the end");
    }
    info!("stopped");
}

fn listen_on(relay: &Relay, config: &Config) -> anyhow::Result<Endpoint> {
    let address = config.listen;
    let socket = UdpSocket::bind(address).with_context(|| format!("can't listen on UDP {address}"))?;
    let tls = relay.party.server(admit::ROLES, Leg::Outer, version::OUTER)?;
    let restart = Restart::from_key(relay.party.credentials.get().key())?;
    Ok(noderelay_link::server_endpoint(socket, tls, &restart, &config.quic)?)
}

async fn follow(relay: Arc<Relay>, mut material: Material) {
    let mut ticks = tokio::time::interval(relay.timing.reread.duration());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is now, and everything was read a moment ago.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        material.check(&relay, now()).await;
        relay.refusals.report(Instant::now());
    }
}
