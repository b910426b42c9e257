//! `noderelay key`: signing keys of policy signers and of the pipeline. The private half never leaves its file.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use noderelay_bundle::PublicKey;
use noderelay_bundle::signing::{Algorithm, SigningKey};
use noderelay_client::setup::with_ending;
use noderelay_pki::files;

use crate::args::KeyCommand;
use crate::out;

/// Largest file with a public key.
const MAX_PUBLIC: usize = 4096;

/// Runs one of the commands.
pub fn run(command: KeyCommand) -> Result<()> {
    match command {
        KeyCommand::Create { file } => {
            let public_file = with_ending(&file, "pub");
            if public_file.symlink_metadata().is_ok() {
                bail!("{} exists already; choose another name", public_file.display());
            }
            if let Some(folder) = file.parent().filter(|p| !p.as_os_str().is_empty()) {
                std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
            }
            let key = SigningKey::create(&file, Algorithm::Ed25519)?;
            files::write_atomic(&public_file, format!("{}\n", key.public()).as_bytes(), 0o644)?;
            show(key.public())
        }
        KeyCommand::Show { file } => show(SigningKey::load(&file)?.public()),
    }
}

/// Reads a `.pub` file.
pub fn public(file: &Path) -> Result<PublicKey> {
    let bytes = files::read_bounded(file, MAX_PUBLIC)?;
    let text = String::from_utf8_lossy(&bytes);
    text.trim()
        .parse()
        .with_context(|| format!("{} holds no public key", file.display()))
}

fn show(key: &PublicKey) -> Result<()> {
    out::text(&format!("{key}\nid {}\n", key.id()))
}
