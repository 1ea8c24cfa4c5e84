//! A set of files and folders, and what is in them: reads manifests, notices which objects came
//! and went, and settles who counts when an object is defined twice (the last file by name, the
//! last definition in a file).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use svc_planner::object::Change;

use super::folder::{FileKey, is_manifest, manifests_in};
use super::{Fault, Object, Position, Problem, Sink};
use crate::api::{Kind, Metadata};
use crate::ingest::{self, ObjectId};

/// Where manifests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file, or a folder with its manifests.
    Path(PathBuf),
}

impl From<&Path> for Input {
    /// `-` is standard input.
    fn from(path: &Path) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else {
            Self::Path(path.to_owned())
        }
    }
}

/// What was read since the source was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files read, repetitions included.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Objects of our kinds.
    pub objects: u64,
    /// Nodes among them, the own one or not.
    pub nodes: u64,
    /// Objects of other kinds.
    pub ignored: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Source {
    node_name: Box<str>,
    files: BTreeMap<Arc<PathBuf>, FileState>,
    owners: HashMap<Arc<ObjectId>, SmallVec<[Arc<PathBuf>; 1]>, RandomState>,
    problems: Vec<Problem>,
    stats: Stats,
}

type Objects = HashSet<Arc<ObjectId>, RandomState>;

#[derive(Debug, Default)]
struct FileState {
    key: Option<FileKey>,
    objects: Objects,
    /// There is nothing in it.
    blank: bool,
}

impl Source {
    /// An empty source; of Nodes, only `node_name` matters.
    #[must_use]
    pub fn new(node_name: &str) -> Self {
        Self {
            node_name: node_name.into(),
            files: BTreeMap::new(),
            owners: HashMap::default(),
            problems: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Reads `input` in full and passes its objects on.
    pub fn load(&mut self, input: &Input, mut on_change: impl FnMut(Change)) {
        match input {
            Input::Stdin => {
                let name = Arc::new(PathBuf::from("-"));
                self.take(&name, None, io::stdin().lock(), &mut on_change);
                self.complain_if_blank(&name);
            }
            Input::Path(path) if path.is_dir() => match manifests_in(path) {
                Ok(files) => files
                    .into_iter()
                    .for_each(|file| self.read(file, &mut on_change)),
                Err(error) => self.complain(path, error),
            },
            Input::Path(path) => {
                self.read(path.clone(), &mut on_change);
                self.complain_if_blank(path);
            }
        }
    }

    /// Reads `text` in full, as if it were in a file called `name`, and passes its objects on.
    pub fn load_text(&mut self, name: &str, text: String, mut on_change: impl FnMut(Change)) {
        let name = Arc::new(PathBuf::from(name));
        self.take(&name, None, text.as_bytes(), &mut on_change);
    }

    /// Reads again what changed in `folder`: `names` says which entries, `None` that any may have.
    /// A file that can no longer be parsed to its end keeps serving what it served.
    pub fn refresh(
        &mut self,
        folder: &Path,
        names: Option<&HashSet<PathBuf>>,
        mut on_change: impl FnMut(Change),
    ) {
        let paths: Vec<PathBuf> = match names {
            Some(names) => {
                let mut paths: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
                paths.retain(|path| is_manifest(path));
                paths.sort_unstable();
                paths
            }
            None => {
                let mut paths = match manifests_in(folder) {
                    Ok(paths) => paths,
                    Err(error) => return self.complain(folder, error),
                };
                let gone = self.files.keys().filter(|file| !file.is_file());
                paths.extend(gone.map(|file| file.to_path_buf()));
                paths.sort_unstable();
                paths.dedup();
                paths
            }
        };
        for path in paths {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    let known = self.files.get(&path).and_then(|file| file.key);
                    if known != Some(FileKey::new(&metadata)) {
                        self.read(path, &mut on_change);
                    }
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.complain(&path, error);
                }
                Err(error) => {
                    if path.is_symlink() {
                        self.complain(&path, error);
                    }
                    self.forget(&path, &mut on_change);
                }
                Ok(_) => self.forget(&path, &mut on_change),
            }
        }
    }

    /// The problems found since the last call.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        core::mem::take(&mut self.problems)
    }

    /// What was read so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// A program that fails leaves nothing in its output; that is no order to remove everything.
    fn complain_if_blank(&mut self, path: &Path) {
        if self
            .files
            .get(&path.to_owned())
            .is_some_and(|file| file.blank)
        {
            self.problems.push(Problem {
                file: Arc::new(path.to_owned()),
                position: None,
                fault: Fault::Blank,
            });
        }
    }

    fn complain(&mut self, path: &Path, error: io::Error) {
        self.problems.push(Problem {
            file: Arc::new(path.to_owned()),
            position: None,
            fault: error.into(),
        });
    }

    fn read(&mut self, path: PathBuf, on_change: &mut impl FnMut(Change)) {
        let name = match self.files.get_key_value(&path) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::new(path),
        };
        let opened = File::open(&*name).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, file)) => {
                self.take(&name, Some(FileKey::new(&metadata)), file, on_change);
            }
            Err(error) => self.complain(&name, error),
        }
    }

    fn take(
        &mut self,
        name: &Arc<PathBuf>,
        key: Option<FileKey>,
        reader: impl Read,
        on_change: &mut impl FnMut(Change),
    ) {
        self.stats.files += 1;
        let before = self.files.remove(name).unwrap_or_default().objects;
        let mut reading = Reading {
            source: self,
            file: name,
            before,
            now: Objects::default(),
            complete: true,
            on_change,
        };
        let read = super::read(reader, &mut reading);
        let Reading {
            before,
            mut now,
            complete,
            ..
        } = reading;
        let (read_all, blank) = match read {
            Ok(length) => {
                self.stats.bytes += length.bytes;
                (true, length.blank)
            }
            Err(error) => {
                self.complain(name, error);
                (false, false)
            }
        };
        if complete && read_all {
            for object in before {
                self.release(&object, name, on_change);
            }
        } else {
            // What used to be in the unreadable part stays until it can be read again.
            now.extend(before);
        }
        let state = FileState {
            key,
            objects: now,
            blank,
        };
        self.files.insert(Arc::clone(name), state);
    }

    fn forget(&mut self, path: &PathBuf, on_change: &mut impl FnMut(Change)) {
        if let Some((name, state)) = self.files.remove_entry(path) {
            for object in state.objects {
                self.release(&object, &name, on_change);
            }
        }
    }

    /// `file` does not define `object` any more: it is gone, or an earlier file's counts now.
    fn release(
        &mut self,
        object: &Arc<ObjectId>,
        file: &Arc<PathBuf>,
        on_change: &mut impl FnMut(Change),
    ) {
        let Some(owners) = self.owners.get_mut(object) else {
            return;
        };
        let counted = owners.last() == Some(file);
        owners.retain(|owner| owner != file);
        match owners.last().cloned() {
            None => {
                self.owners.remove(object);
                on_change(ingest::gone(object));
            }
            Some(heir) if counted => self.read(heir.to_path_buf(), on_change),
            Some(_) => {}
        }
    }
}

/// Takes the objects of one file.
struct Reading<'r, F> {
    source: &'r mut Source,
    file: &'r Arc<PathBuf>,
    /// Objects the file held before and that were not met again yet.
    before: Objects,
    now: Objects,
    complete: bool,
    on_change: &'r mut F,
}

impl<F: FnMut(Change)> Reading<'_, F> {
    fn take<T>(
        &mut self,
        at: Position,
        kind: Kind,
        metadata: &Metadata<'_>,
        api: &T,
        convert: impl FnOnce(&ObjectId, &T, &mut Vec<ingest::Problem>) -> Change,
    ) {
        let Some(id) = ObjectId::new(kind, metadata) else {
            return self.fault(at, Fault::NoName(kind));
        };
        self.source.stats.objects += 1;
        self.source.stats.nodes += u64::from(kind == Kind::Node);
        if kind == Kind::Node && id.name != self.source.node_name {
            return;
        }
        let mut problems = Vec::new();
        let change = convert(&id, api, &mut problems);
        for problem in problems {
            self.fault(at, problem.into());
        }
        if self.claim(id, at) {
            (self.on_change)(change);
        }
    }

    /// Notes that the file defines `id`; whether this definition counts.
    fn claim(&mut self, id: ObjectId, at: Position) -> bool {
        let id = self.before.take(&id).unwrap_or_else(|| Arc::new(id));
        let owners = self.source.owners.entry(Arc::clone(&id)).or_default();
        let mut other = None;
        if !owners.contains(self.file) {
            let place = owners.partition_point(|owner| owner < self.file);
            owners.insert(place, Arc::clone(self.file));
        } else if self.now.contains(&id) {
            other = Some(("this file".to_owned(), "the last"));
        }
        let counts = owners.last() == Some(self.file);
        if let (None, true) = (&other, owners.len() > 1) {
            let rival = owners.iter().rfind(|owner| *owner != self.file);
            let rival = rival.map(|rival| rival.display().to_string());
            let used = if counts { "this one" } else { "the other" };
            other = rival.map(|rival| (rival, used));
        }
        if let Some((other, used)) = other {
            let object = (*id).clone();
            let fault = Fault::Duplicate {
                object,
                other,
                used,
            };
            self.fault(at, fault);
        }
        self.now.insert(id);
        counts
    }
}

impl<F: FnMut(Change)> Sink for Reading<'_, F> {
    fn object(&mut self, at: Position, object: Object<'_>) {
        match object {
            Object::Service(api) => {
                self.take(at, Kind::Service, &api.metadata, &api, ingest::service);
            }
            Object::EndpointSlice(api) => self.take(
                at,
                Kind::EndpointSlice,
                &api.metadata,
                &api,
                ingest::endpoint_slice,
            ),
            Object::Node(api) => self.take(at, Kind::Node, &api.metadata, &api, ingest::node),
            Object::ServiceCidr(api) => self.take(
                at,
                Kind::ServiceCidr,
                &api.metadata,
                &api,
                ingest::service_cidr,
            ),
            // Whoever reads the text takes lists apart.
            Object::List | Object::Other => self.source.stats.ignored += 1,
            Object::Unknown => self.fault(at, Fault::NoKind),
        }
    }

    fn fault(&mut self, at: Position, fault: Fault) {
        if matches!(fault, Fault::Syntax { .. } | Fault::Io(_)) {
            self.complete = false;
        }
        self.source.problems.push(Problem {
            file: Arc::clone(self.file),
            position: Some(at),
            fault,
        });
    }
}
