//! The store: what a node, relay or client keeps about publications, on a disk that outlives restarts.
//!
//! ```text
//! open ── pin (once) ── begin ── load ── load …        each load: verified and newer → in force, kept
//!                         └ while the directory is bad: the last good one, and why
//! ```
//!
//! | file | content |
//! |---|---|
//! | `trust.json` | fingerprint of the root that was pinned, the root trusted now, the version floors |
//! | `last-good.json` | the last publication that was accepted, whole, verified again whenever it is read |
//! | `lock` | one load at a time, across processes |
//!
//! Both are replaced atomically, and only after everything was verified and the caller has said that it can use the
//! content ([`Store::load_accepted`]): what verifies and cannot be used never becomes the last good one. A refused
//! publication changes nothing, except that a root which follows from the trusted one is kept at once. Floors outlive
//! expiry and restart. Local time is never written.
//!
//! A disk that takes nothing holds up no publication: whoever fills it could keep a revocation away. What was verified is in
//! force, its floors count in this process, [`Store::unkept`] says why it is not on disk, and each load tries again.

use crate::error::BundleError;
use crate::limits::MAX_ROOT;
use crate::metadata::Role;
use crate::publication::Publication;
use crate::source::{Directory, Source};
use crate::verify::{self, Floor, Floors, TIMESTAMP, TrustedRoot};
use jiff::Timestamp;
use kept::Trust;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

mod kept;

/// A store of publications in one directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// The publication that this process holds, so that an unchanged directory costs one small read.
    held: Mutex<Option<Publication>>,
    /// What counts instead of the files, while they can't be written.
    unkept: Mutex<Option<Unkept>>,
}

/// What could not be written.
#[derive(Debug)]
struct Unkept {
    trust: Trust,
    why: String,
}

/// What a load found.
#[derive(Debug)]
pub enum Accepted<T> {
    /// The very publication that this [`Store`] handed out last: nothing was verified or asked again, so that looking at
    /// an unchanged directory costs one small read. What the caller made of it then still holds.
    Same(Publication),
    /// Another publication, with what the caller made of it. When only the pipeline has signed a newer timestamp,
    /// [`Publication::same_content`] says so.
    New(Publication, T),
}

/// What a program begins with.
#[derive(Debug)]
pub struct Begun<T, E> {
    /// The publication in force.
    pub publication: Publication,
    /// What the caller made of it.
    pub made: T,
    /// Why it is not the one in the directory, when it is the last good one.
    pub refused: Option<E>,
}

impl<T> Accepted<T> {
    /// The publication, new or not.
    pub fn into_publication(self) -> Publication {
        match self {
            Self::Same(publication) | Self::New(publication, _) => publication,
        }
    }
}

impl Store {
    /// Opens the store in `directory`, which is made (mode 0700) when it is not there.
    ///
    /// # Errors
    /// [`BundleError::State`] when the directory cannot be used.
    pub fn open(directory: &Path) -> Result<Self, BundleError> {
        let store = Self {
            directory: directory.to_owned(),
            held: Mutex::new(None),
            unkept: Mutex::new(None),
        };
        noderelay_pki::files::private_directory(directory).map_err(|e| store.unusable(e.to_string()))?;
        store.read_trust()?;
        Ok(store)
    }

    /// Why what is in force is not kept: after a restart it would have to be loaded anew.
    pub fn unkept(&self) -> Option<String> {
        self.unkept.lock().ok()?.as_ref().map(|unkept| unkept.why.clone())
    }

    /// The fingerprint (SHA-256 of the file, hex) of the root that is pinned here.
    ///
    /// # Errors
    /// [`BundleError::State`] when the store is damaged.
    pub fn pinned(&self) -> Result<Option<String>, BundleError> {
        Ok(self.read_trust()?.map(|trust| trust.pinned))
    }

    /// Pins a root that was given out of band. Pinning the same again is good; another is refused.
    ///
    /// # Errors
    /// A root that is not valid, [`BundleError::OtherRoot`], [`BundleError::State`].
    pub fn pin(&self, root: &[u8]) -> Result<String, BundleError> {
        self.pin_root("the given root", root, false)
    }

    /// Pins the first root of a publication, unless one is pinned already. Returns what is pinned.
    ///
    /// # Errors
    /// A root that is missing or not valid, [`BundleError::State`].
    pub fn pin_first_use(&self, publication: &Path) -> Result<String, BundleError> {
        match self.pinned()? {
            Some(pinned) => Ok(pinned),
            None => self.pin_root("metadata/1.root.json", &first_root(publication)?, true),
        }
    }

    /// Pins the first root of a publication if it has this fingerprint, which was given out of band.
    ///
    /// # Errors
    /// As [`Store::pin`]; [`BundleError::OtherRoot`] when the fingerprint differs.
    pub fn pin_fingerprint(&self, publication: &Path, fingerprint: &str) -> Result<String, BundleError> {
        let root = first_root(publication)?;
        let seen = verify::fingerprint(&root);
        if seen != fingerprint {
            return Err(BundleError::OtherRoot {
                pinned: crate::error::shown(fingerprint),
                seen,
            });
        }
        self.pin_root("metadata/1.root.json", &root, false)
    }

    /// Raises the floor of the policy version: a node certificate carries the version that was in force when it was issued,
    /// so that a wiped node does not start from nothing. Never lowers it.
    ///
    /// # Errors
    /// [`BundleError::NotPinned`], [`BundleError::State`].
    pub async fn raise_floor(&self, policy_version: u64) -> Result<(), BundleError> {
        let _lock = self.lock().await?;
        let mut trust = self.trust()?;
        if trust
            .floors
            .get(&Role::Targets)
            .is_none_or(|floor| floor.version < policy_version)
        {
            trust.floors.insert(
                Role::Targets,
                Floor {
                    version: policy_version,
                    digest: None,
                },
            );
            self.write_trust(&trust)?;
        }
        Ok(())
    }

    /// Loads the publication in a directory. On success it is in force and kept ([`Store::unkept`]); the same as before is
    /// good, too.
    ///
    /// A publication that has expired is refused while one that has not is in force. Where there is none, it is taken:
    /// [`Publication::freshness`] says `Expired`, which leaves break-glass.
    ///
    /// For callers that can use whatever verifies; others take [`Store::load_accepted`]. One store is loaded in one way.
    ///
    /// # Errors
    /// Why it was refused. Nothing has changed then: the last good one stays in force.
    pub async fn load(&self, publication: &Path, now: Timestamp) -> Result<Publication, BundleError> {
        self.load_from(&Directory::open(publication), now).await
    }

    /// As [`Store::load`], from any source.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub async fn load_from(&self, source: &dyn Source, now: Timestamp) -> Result<Publication, BundleError> {
        let loaded = self.load_accepted_from(source, now, |_| Ok::<_, BundleError>(()));
        loaded.await.map(Accepted::into_publication)
    }

    /// As [`Store::load`], for a caller that must make something of the content (policies, trust anchors): `accept` is
    /// asked once everything is verified and before anything is kept. What it refuses leaves the last good publication
    /// and the floors as they were.
    ///
    /// It is not asked about what this store handed out last: [`Accepted::Same`].
    ///
    /// # Errors
    /// As [`Store::load`], and what `accept` says.
    pub async fn load_accepted<T, E: From<BundleError>>(
        &self,
        publication: &Path,
        now: Timestamp,
        accept: impl FnOnce(&Publication) -> Result<T, E>,
    ) -> Result<Accepted<T>, E> {
        self.load_accepted_from(&Directory::open(publication), now, accept)
            .await
    }

    /// As [`Store::load_accepted`], from any source.
    ///
    /// # Errors
    /// As [`Store::load_accepted`].
    pub async fn load_accepted_from<T, E: From<BundleError>>(
        &self,
        source: &dyn Source,
        now: Timestamp,
        accept: impl FnOnce(&Publication) -> Result<T, E>,
    ) -> Result<Accepted<T>, E> {
        if let Some(held) = self.unchanged(source)? {
            self.keep_again(&held).await;
            return Ok(Accepted::Same(held));
        }
        let _lock = self.lock().await?;
        let mut trust = self.trust()?;
        let last = self.read_last_good().await.unwrap_or_else(|error| {
            tracing::warn!(code = error.code(), "the last good publication cannot be read: {error}");
            None
        });
        if let Some(last) = last
            .as_ref()
            .filter(|l| l.versions().root == trust.root.signed.common.version)
        {
            raise(&mut trust.floors, last);
        }
        // 5.3, and 5.3.8: a root that follows is kept, whatever comes after.
        let (root, followed) = verify::advance(source, &trust.root, &mut trust.floors)?;
        let start = std::mem::replace(&mut trust.root, root);
        if !followed.is_empty() {
            self.keep(None, &trust);
        }
        // 5.4 to 5.7
        let loaded = verify::verify(source, &start, &trust.root, followed, &trust.floors, &self.directory).await;
        let publication = loaded.map_err(|error| other_root(error, source, &trust))?;
        // Expiry, each publication by its own lower bound
        if let Some(last) = &last {
            let at = publication.effective_time(now);
            let last_stands = last.expired_at(last.effective_time(now)).is_none();
            if let (Some((role, when)), true) = (publication.expired_at(at), last_stands) {
                return Err(BundleError::Expired { role, when, at }.into());
            }
        }
        let made = accept(&publication)?;
        // Store
        let same = last.is_some_and(|last| last.common(Role::Timestamp) == publication.common(Role::Timestamp));
        if raise(&mut trust.floors, &publication) || !same {
            self.keep((!same).then_some(&publication), &trust);
        }
        self.hold(&publication);
        Ok(Accepted::New(publication, made))
    }

    /// Writes what counts from now on, or remembers that it could not be written, and says so when that is news.
    fn keep(&self, publication: Option<&Publication>, trust: &Trust) {
        let written = publication.map_or(Ok(()), |publication| self.write_last_good(publication));
        let why = written
            .and_then(|()| self.write_trust(trust))
            .err()
            .map(|error| error.to_string());
        if let Some(why) = why.as_ref().filter(|why| self.unkept().as_ref() != Some(why)) {
            tracing::warn!(why, "what is in force can't be kept; a restart needs it again");
        }
        if let Ok(mut unkept) = self.unkept.lock() {
            *unkept = why.map(|why| Unkept {
                trust: trust.clone(),
                why,
            });
        }
    }

    /// Writes what could not be written when it came, unless another process has written something newer since.
    async fn keep_again(&self, publication: &Publication) {
        if self.unkept().is_none() {
            return;
        }
        // Who can't look now looks next time.
        if let (Ok(_lock), Ok(trust)) = (self.lock().await, self.trust()) {
            let reached = Floor::of(publication.common(Role::Timestamp));
            let ours = trust.floors.get(&Role::Timestamp) == Some(&reached);
            self.keep(ours.then_some(publication), &trust);
        }
    }

    /// The first load of a program: the publication in a directory, else the last good one. `accept` is as for
    /// [`Store::load_accepted`].
    ///
    /// # Errors
    /// As [`Store::load_accepted`], when there is no last good one that can be used either.
    pub async fn begin<T, E: From<BundleError> + std::fmt::Display>(
        &self,
        publication: &Path,
        now: Timestamp,
        accept: impl Fn(&Publication) -> Result<T, E>,
    ) -> Result<Begun<T, E>, E> {
        let (publication, made, refused) = match self.load_accepted(publication, now, &accept).await {
            Ok(Accepted::New(publication, made)) => (publication, made, None),
            Ok(Accepted::Same(publication)) => {
                let made = accept(&publication)?;
                (publication, made, None)
            }
            Err(refused) => match self.last_good_accepted(now, &accept).await {
                Ok(Some((last, made))) => (last, made, Some(refused)),
                Ok(None) => return Err(refused),
                Err(error) => {
                    tracing::warn!("nor can the last good publication be used: {error}");
                    return Err(refused);
                }
            },
        };
        Ok(Begun {
            publication,
            made,
            refused,
        })
    }

    /// The last publication that was accepted here, verified again; `None` when there was none yet.
    ///
    /// # Errors
    /// [`BundleError::NotPinned`]; [`BundleError::State`] and others when the kept copy is damaged.
    pub async fn last_good(&self, now: Timestamp) -> Result<Option<Publication>, BundleError> {
        let last = self.last_good_accepted(now, |_| Ok::<_, BundleError>(())).await?;
        Ok(last.map(|(publication, ())| publication))
    }

    /// As [`Store::last_good`], with what the caller makes of it. Refused (this program is older than the one that kept it),
    /// it stays on disk for a program that can use it, and the next load starts afresh.
    ///
    /// # Errors
    /// As [`Store::last_good`], and what `accept` says.
    pub async fn last_good_accepted<T, E: From<BundleError>>(
        &self,
        now: Timestamp,
        accept: impl FnOnce(&Publication) -> Result<T, E>,
    ) -> Result<Option<(Publication, T)>, E> {
        self.trust()?;
        let _lock = self.lock().await?;
        let Some(last) = self.read_last_good().await? else {
            return Ok(None);
        };
        tracing::debug!(
            version = last.policy_version(),
            freshness = last.freshness(now).code(),
            "last good publication"
        );
        let made = accept(&last)?;
        self.hold(&last);
        Ok(Some((last, made)))
    }

    fn unchanged(&self, source: &dyn Source) -> Result<Option<Publication>, BundleError> {
        let Some(held) = self.held.lock().ok().and_then(|held| held.clone()) else {
            return Ok(None);
        };
        let offered = source.read(TIMESTAMP, crate::limits::MAX_TIMESTAMP)?;
        Ok((offered.as_ref() == held.raw().get(TIMESTAMP)).then_some(held))
    }

    fn hold(&self, publication: &Publication) {
        if let Ok(mut held) = self.held.lock() {
            *held = Some(publication.clone());
        }
    }

    fn pin_root(&self, file: &str, root: &[u8], first_use: bool) -> Result<String, BundleError> {
        let root = TrustedRoot::parse(file, root)?;
        let fingerprint = root.fingerprint();
        match self.read_trust()? {
            Some(trust) if trust.pinned == fingerprint || trust.root.fingerprint() == fingerprint => Ok(trust.pinned),
            Some(trust) => Err(BundleError::OtherRoot {
                pinned: trust.pinned,
                seen: fingerprint,
            }),
            None => {
                let mut floors = Floors::new();
                verify::set_floors(&mut floors, &root.signed.document);
                self.write_trust(&Trust {
                    pinned: fingerprint.clone(),
                    first_use,
                    root,
                    floors,
                })?;
                Ok(fingerprint)
            }
        }
    }
}

/// Raises the floors to a publication; says whether anything changed.
fn raise(floors: &mut Floors, publication: &Publication) -> bool {
    let mut changed = false;
    for role in [Role::Targets, Role::Snapshot, Role::Timestamp] {
        let reached = Floor::of(publication.common(role));
        if floors
            .get(&role)
            .is_none_or(|floor| *floor != reached && floor.version <= reached.version)
        {
            floors.insert(role, reached);
            changed = true;
        }
    }
    changed
}

fn first_root(publication: &Path) -> Result<Vec<u8>, BundleError> {
    Directory::open(publication).require("metadata/1.root.json", MAX_ROOT)
}

/// When nothing of our root signed a publication, the reason is usually that it belongs to another fleet.
fn other_root(error: BundleError, source: &dyn Source, trust: &Trust) -> BundleError {
    let first = match &error {
        BundleError::Unsigned { .. } => source.read("metadata/1.root.json", MAX_ROOT).ok().flatten(),
        _ => None,
    };
    match first.map(|root| verify::fingerprint(&root)) {
        // Only the first root of all can be compared: a later one may have been pinned.
        Some(seen) if seen != trust.pinned && trust.root.signed.common.version == 1 => BundleError::OtherRoot {
            pinned: trust.pinned.clone(),
            seen,
        },
        _ => error,
    }
}
