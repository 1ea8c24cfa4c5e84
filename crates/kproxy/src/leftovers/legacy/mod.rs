//! Leftovers of legacy iptables (`ip_tables`, not nf_tables). The kernel takes and gives these tables only as
//! one block over raw socket options, for which there is no safe interface, so the program of that name
//! does it: `iptables-legacy-save` and `iptables-legacy-restore`, where the image or the node has them.
//!
//! A process that has given up its privileges can start no program. So a [`Helper`], which is this program
//! again, is started before, if there are such tables and programs. It waits for a family's name and removes
//! that family's leftovers, if any; it does nothing else, and ends when its input does.

mod helper;
mod script;

pub(crate) use helper::COMMAND;
pub(super) use helper::{Helper, serve};

use core::fmt;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use svc_planner::plan::Family;

use super::names::Table;

/// What is known of the legacy tables of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Legacy {
    /// There are none in which kube-proxy has chains.
    None,
    /// They can be looked into and changed by this program.
    Program(Program),
    /// There are some, and no program that shows what is in them.
    Unseen,
}

/// `iptables-legacy-save` and its like, or a program that is all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    save: PathBuf,
    restore: PathBuf,
}

/// Where programs are even if the environment does not say so.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// Who removes something.
#[derive(Debug)]
pub(super) enum Hands {
    /// This process, which has its privileges.
    Own,
    /// A process that has kept them.
    Helper(Helper),
    /// Nobody: there was nothing to look into when that could have been started.
    None,
    /// Nobody, for this reason.
    Tied(String),
}

/// Looks at a family's tables, in the calling thread's network namespace. Makes none: the program would.
pub(super) fn look(family: Family) -> Legacy {
    if !has_tables(family) {
        return Legacy::None;
    }
    Program::find(family).map_or(Legacy::Unseen, Legacy::Program)
}

/// Whether there are tables in which kube-proxy has chains, anybody's.
pub(super) fn has_tables(family: Family) -> bool {
    let file = match family {
        Family::Ipv4 => "ip_tables_names",
        Family::Ipv6 => "ip6_tables_names",
    };
    // Without the module there is no such file; without the right to read it nothing can be said.
    let tables = fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let tables = tables.unwrap_or_default();
    tables.lines().any(|name| Table::named(name).is_some())
}

/// The command that removes what is left of a family, for a shell on the node.
pub(super) fn command(family: Family) -> String {
    let tool = tool(family);
    format!(
        "{tool}-legacy-save | grep -vE 'KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|NODE-PORT|POSTROUTING|\
         MARK-MASQ|FORWARD|PROXY-|SVC-|SVL-|SEP-|FW-|EXT-|XLB-|LOAD-BALANCER|SOURCE-RANGES-|IPVS-)' | \
         {tool}-legacy-restore"
    )
}

const fn tool(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "iptables",
        Family::Ipv6 => "ip6tables",
    }
}

impl Program {
    fn find(family: Family) -> Option<Self> {
        let tool = tool(family);
        let pair = |name: String| {
            Some(Self {
                save: on_path(format!("{name}-save").as_ref())?,
                restore: on_path(format!("{name}-restore").as_ref())?,
            })
        };
        pair(format!("{tool}-legacy")).or_else(|| {
            let plain = pair(tool.to_owned())?;
            plain.is_legacy().then_some(plain)
        })
    }

    /// `iptables v1.8.9 (legacy)`; before 1.8 there was nothing else.
    fn is_legacy(&self) -> bool {
        let shown = Command::new(&self.save).arg("--version").output();
        shown.is_ok_and(|shown| !String::from_utf8_lossy(&shown.stdout).contains("nf_tables"))
    }

    /// Removes what is kube-proxy's, each table at once; returns whether there was something.
    pub(super) fn remove(&self) -> Result<bool, LegacyError> {
        let Some(script) = script::removal(&self.saved()?) else {
            return Ok(false);
        };
        // For its lock it waits as long as kube-proxy does (and no longer than a kubelet needs).
        self.run(&self.restore, &["--noflush", "--wait=5"], script.as_bytes())?;
        Ok(true)
    }

    /// All tables that there are.
    fn saved(&self) -> Result<String, LegacyError> {
        self.run(&self.save, &[], &[])
    }

    fn run(&self, program: &Path, args: &[&str], input: &[u8]) -> Result<String, LegacyError> {
        let fail = |what: &dyn fmt::Display| LegacyError {
            program: program.to_owned(),
            what: what.to_string().trim_end().replace('\n', "; "),
        };
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| fail(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            // It says itself what is wrong with what it read.
            let _ = stdin.write_all(input);
        }
        let output = child.wait_with_output().map_err(|error| fail(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(fail(&format!("{}: {said}", output.status)));
        }
        String::from_utf8(output.stdout).map_err(|error| fail(&error))
    }
}

/// What a program of iptables said.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", program.display())]
pub(super) struct LegacyError {
    program: PathBuf,
    what: String,
}

fn on_path(program: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}
