//! `noderelay demo`: a whole fleet of one node on this machine, from nothing.
//!
//! ```text
//! plain:  folder → fleet of one → relay and agent as tasks of this process → the ordinary client → all of it ended
//! --up:   folder → fleet of one → relay and agent as child processes, started again when they die, until Ctrl-C;
//!         killed, it takes them along: each ends when its standard input does
//! ```
//!
//! Everything is real: certificates, signed publication, QUIC on loopback, inner TLS, policy, recording. Only the keys lie
//! together in one folder, which is what makes it a demo.

mod folder;
mod supervise;

use std::ffi::OsString;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use noderelay_agent::app::Reexec;
use noderelay_agent::cli;
use noderelay_agent::uplink::Said;
use noderelay_client::config::state_folder;
use noderelay_client::setup::{self, Layout, Spec};

use noderelay_pki::files;
use noderelay_relay as relay;
use noderelay_service::LogFormat;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::args::{DemoArgs, Global, InternalCommand};
use crate::out;
use folder::{Folder, quoted};
use supervise::Service;

/// Relay and agent are on this machine: they serve within moments or never.
const SERVING_WITHIN: Duration = Duration::from_secs(20);
/// What is still running after this is left to the end of the process.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Runs the demo; gives the exit code.
pub async fn run(args: DemoArgs, global: &Global) -> Result<u8> {
    match args.up {
        Some(dir) => up(&dir).await.map(|()| 0),
        None => once(args.argv, global).await,
    }
}

/// One session through a relay and an agent that live in this process.
async fn once(argv: Vec<OsString>, global: &Global) -> Result<u8> {
    let folder = fresh_folder()?;
    if !global.quiet {
        out::say(&format!("demo: everything lies in {}", folder.display()));
    }
    let layout = setup::fleet_of_one(&folder, &spec(free_address()?)?, Timestamp::now()).await?;
    let stop = CancellationToken::new();
    let mut relay = {
        let config = relay::Config::load(&layout.relay())?;
        let stop = relay::Stop {
            soft: stop.clone(),
            ..Default::default()
        };
        tokio::spawn(relay::run(config, |_| {}, stop))
    };
    let (said, mut heard) = mpsc::channel(4);
    let mut agent = {
        let config = noderelay_agent::config::Config::load(&layout.agent())?;
        let reexec = Reexec {
            program: cli::OWN_PROGRAM.into(),
            words: words("holder"),
        };
        tokio::spawn(noderelay_agent::app::run(config, reexec, said, stop.clone()))
    };
    let attached = tokio::time::timeout(SERVING_WITHIN, heard.recv()).await;
    // It says more in the course of time, and would wait for somebody who listens.
    tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let code = match attached {
        Ok(Some(Said::Attached(_))) => Ok(crate::commands::session::demo(layout.client(), argv, global).await),
        _ => Err(why_not_serving(&mut agent, &mut relay).await),
    };
    stop.cancel();
    // Both say goodbye to each other within moments; what they hold does not matter after that.
    let _ = tokio::time::timeout(STOP_WITHIN, async {
        (&mut agent).await.is_ok() && (&mut relay).await.is_ok()
    })
    .await;
    code
}

async fn why_not_serving(
    agent: &mut tokio::task::JoinHandle<Result<()>>,
    relay: &mut tokio::task::JoinHandle<Result<()>>,
) -> anyhow::Error {
    let ended = async {
        tokio::select! {
            ended = agent => ("agent", ended),
            ended = relay => ("relay", ended),
        }
    };
    match tokio::time::timeout(Duration::from_millis(10), ended).await {
        Ok((who, Ok(Err(error)))) => error.context(format!("the demo's {who} ended")),
        Ok((who, ended)) => anyhow::anyhow!("the demo's {who} ended: {ended:?}"),
        Err(_) => anyhow::anyhow!("the demo's agent did not reach its relay on loopback within {SERVING_WITHIN:?}"),
    }
}

/// Relay and agent as child processes, in the foreground.
async fn up(dir: &Path) -> Result<()> {
    let folder = Folder::take(dir)?;
    let dir = folder.path.clone();
    let layout = setup::fleet_of_one(&dir, &spec(free_address()?)?, Timestamp::now()).await?;
    let program = std::env::current_exe().context("this program's own file")?;
    let stop = noderelay_agent::app::stop_on_signals()?;
    let service = |name: &'static str, config: PathBuf| {
        let (serving, served) = oneshot::channel();
        let service = Service {
            name,
            program: program.clone(),
            config,
            log: layout.log(name),
        };
        (tokio::spawn(service.keep(stop.clone(), serving)), served)
    };
    let (mut relay, relay_serves) = service("relay", layout.relay());
    let (mut agent, agent_serves) = service("agent", layout.agent());
    let serving = async { relay_serves.await.is_ok() && agent_serves.await.is_ok() };
    tokio::select! {
        ended = &mut relay => return ended?,
        ended = &mut agent => return ended?,
        () = stop.cancelled() => {}
        served = tokio::time::timeout(SERVING_WITHIN, serving) => {
            if !matches!(served, Ok(true)) {
                stop.cancel();
                bail!("the demo does not serve within {SERVING_WITHIN:?}; its logs are in {}", dir.join("logs").display());
            }
            tell(&dir, &layout)?;
        }
    }
    let ended = tokio::select! {
        ended = &mut relay => ended?,
        ended = &mut agent => ended?,
        () = stop.cancelled() => Ok(()),
    };
    stop.cancel();
    // Each ends its child and waits for it.
    for task in [relay, agent] {
        if !task.is_finished() {
            let _ = task.await;
        }
    }
    ended
}

/// The client's configuration appears last, whole, at its documented place: who waits for it can start.
fn tell(dir: &Path, layout: &Layout) -> Result<()> {
    let config = dir.join("config.yaml");
    let text = "\
identity: {certificate: client/user.crt, key: client/user.key}\nbundle: published\n\
root: published/metadata/1.root.json\nstate: client/state\n";
    files::write_atomic(&config, text.as_bytes(), 0o644)?;
    let (config, recordings) = (quoted(&config), layout.recordings());
    out::say(&format!(
        "demo: relay and agent serve. In a second terminal:\n\
noderelay --config {config} --via-relay local\n\
noderelay --config {config} doctor local\n\
Recordings: {}. Ctrl-C ends the demo.",
        recordings.display()
    ));
    Ok(())
}

/// A port that is free now and is taken by the relay in a moment. Whoever takes it in between makes the relay say so.
fn free_address() -> Result<SocketAddr> {
    UdpSocket::bind(("127.0.0.1", 0))
        .and_then(|socket| socket.local_addr())
        .context("no UDP port on loopback")
}

fn spec(address: SocketAddr) -> Result<Spec> {
    let user = std::env::var("USER").unwrap_or_default();
    Ok(Spec::demo(address.to_string(), &user).or_else(|_| Spec::demo(address.to_string(), "operator"))?)
}

/// A new folder for one run: below the state folder; without a home, one of our own with a name that nobody can foresee.
fn fresh_folder() -> Result<PathBuf> {
    let Some(state) = state_folder() else {
        let pattern = std::env::temp_dir().join("noderelay-demo-XXXXXX");
        return nix::unistd::mkdtemp(&pattern)
            .with_context(|| format!("no folder like {}; set HOME or XDG_STATE_HOME", pattern.display()));
    };
    let name = format!("{}-{}", Timestamp::now().strftime("%Y%m%d-%H%M%S"), std::process::id());
    let folder = state.join("demo").join(name);
    files::private_directory(&folder)?;
    Ok(folder)
}

/// The words that lead this program to a part of the demo.
fn words(part: &str) -> Vec<OsString> {
    vec!["internal".into(), part.into()]
}

/// What the demo's child processes run.
pub fn internal(command: InternalCommand) -> Result<ExitCode> {
    match command {
        InternalCommand::Relay { config } => {
            supervise::end_with_the_supervisor();
            serve_relay(&config)?;
        }
        InternalCommand::Agent { config } => {
            supervise::end_with_the_supervisor();
            cli::serve(&config, LogFormat::Text, words("holder"))?;
        }
        InternalCommand::Holder => {
            return Ok(noderelay_holder::holder_main(
                Path::new(cli::OWN_PROGRAM),
                &["internal", "child"],
            ));
        }
        InternalCommand::Child => noderelay_child::child_main(),
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_relay(config: &Path) -> Result<()> {
    let log = cli::init_logs(LogFormat::Text)?;
    let config = relay::Config::load(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let stop = relay::stop_on_signals()?;
        // A supervisor that went away ends this process in another way.
        let ready = |address| _ = out::line(&format!("ready {address}"));
        relay::run(config, ready, stop).await
    });
    log.finish();
    done
}
