//! Links of docs/KERNEL.md into the kernel's source: each leads to the line where the function named
//! begins, in the release that the link names.
//!
//! The source is Debian's package of that release, whose changelog has no change of its own to these
//! files. Of it the files linked to are kept below the cache, as `linux-source/RELEASE/`; without them
//! only the links' form is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apt::{AptRoot, cache_dir, create_dir, output, remove_dir};
use crate::sh;

/// Has the package.
const SUITE: &str = "bookworm-security";
const REPOSITORY: &str = "https://github.com/gregkh/linux/blob/v";

#[derive(Default, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask check-permalinks           as far as the source is at hand
  cargo xtask check-permalinks --fetch   fetches Debian's package of the kernel's source (150 MB)")]
pub(crate) struct Args {
    /// Fetch what is missing of the source
    #[arg(long)]
    fetch: bool,
}

/// A definition at the document's end.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    function: &'a str,
    release: &'a str,
    file: &'a str,
    line: usize,
}

/// Checks all links of the document.
pub(crate) fn check(args: &Args) -> Result<()> {
    let path = sh::root().join("docs/KERNEL.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let links = links(&text)?;
    let release = links.first().context("no links into the kernel")?.release;
    let source = cache_dir()?.join("linux-source").join(release);
    let files: BTreeSet<&str> = links.iter().map(|link| link.file).collect();
    let is_complete = files.iter().all(|file| source.join(file).is_file());
    if !is_complete && !args.fetch {
        println!(
            "{} links to Linux {release}: not looked at, no source at hand (check-permalinks --fetch)",
            links.len()
        );
        return Ok(());
    }
    if !is_complete {
        fetch(release, &files, &source)?;
    }
    let mut wrong = Vec::new();
    for link in &links {
        wrong.extend(look(link, &source)?);
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} links to Linux {release}: all lead there", links.len());
    Ok(())
}

/// The definitions. All are of one release; each is used, and what is used is defined.
fn links(text: &str) -> Result<Vec<Link<'_>>> {
    let mut links = Vec::new();
    let mut used = BTreeSet::new();
    for line in text.lines() {
        if let Some(definition) = line.strip_prefix('[').filter(|it| it.contains("]: ")) {
            links.push(link(definition).with_context(|| line.to_owned())?);
        } else {
            let references = line.split("`][").skip(1);
            used.extend(references.filter_map(|rest| Some(rest.split_once(']')?.0)));
        }
    }
    let defined: BTreeSet<_> = links.iter().map(|link| link.function).collect();
    ensure!(defined.len() == links.len(), "a link is defined twice");
    let differing: Vec<_> = defined.symmetric_difference(&used).collect();
    ensure!(
        differing.is_empty(),
        "defined or used, not both: {differing:?}"
    );
    let releases: BTreeSet<_> = links.iter().map(|link| link.release).collect();
    ensure!(
        releases.len() <= 1,
        "links to several releases: {releases:?}"
    );
    Ok(links)
}

fn link(definition: &str) -> Option<Link<'_>> {
    let (function, target) = definition.split_once("]: ")?;
    let (release, place) = target.strip_prefix(REPOSITORY)?.split_once('/')?;
    let (file, line) = place.split_once("#L")?;
    Some(Link {
        function,
        release,
        file,
        line: line.parse().ok()?,
    })
}

/// What is wrong with a link.
fn look(link: &Link<'_>, source: &Path) -> Result<Option<String>> {
    let path = source.join(link.file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let begins: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| begins(line, link.function))
        .map(|(number, _)| number)
        .collect();
    if begins.contains(&link.line) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{} does not begin at line {} of {} but at {begins:?}",
        link.function, link.line, link.file
    )))
}

/// Whether a definition of the function begins so: its name, behind its type, and an argument's list.
fn begins(line: &str, function: &str) -> bool {
    let Some((before, _)) = line.split_once(&format!("{function}(")) else {
        return false;
    };
    let is_word = before
        .chars()
        .next_back()
        .is_none_or(|it| !it.is_alphanumeric() && it != '_');
    is_word && !line.starts_with(char::is_whitespace) && !line.trim_end().ends_with(';')
}

/// Fetches the release's source and keeps these files of it.
fn fetch(release: &str, files: &BTreeSet<&str>, source: &Path) -> Result<()> {
    let (series, _) = release.rsplit_once('.').context("no series")?;
    let building = cache_dir()?.join(format!("linux-source/new-{}", std::process::id()));
    remove_dir(&building)?;
    let fetched = unpack(release, series, files, &building);
    let done = fetched.and_then(|unpacked| {
        remove_dir(source)?;
        fs::rename(&unpacked, source).with_context(|| source.display().to_string())
    });
    remove_dir(&building)?;
    done
}

fn unpack(release: &str, series: &str, files: &BTreeSet<&str>, building: &Path) -> Result<PathBuf> {
    let apt = AptRoot::new(&building.join("apt"), &[SUITE])?;
    let package = format!("linux-source-{series}");
    let packages = building.join("packages");
    apt.download_alone(&[format!("{package}={release}-*")], &packages)
        .with_context(|| format!("{package} {release} is not to be had any more"))?;
    let root = building.join("root");
    create_dir(&root)?;
    for deb in crate::apt::walk(&packages)? {
        let args = [Path::new("-x"), &deb, &root].map(Path::as_os_str);
        output(Command::new("dpkg-deb").args(args))?;
    }
    let list: Vec<String> = files
        .iter()
        .copied()
        .chain(["Makefile"])
        .map(|file| format!("{package}/{file}"))
        .collect();
    let archive = root.join(format!("usr/src/{package}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(building).arg("-xJf").arg(archive);
    output(tar.args(&list))?;
    let unpacked = building.join(package);
    let makefile = fs::read_to_string(unpacked.join("Makefile"))?;
    let found = version(&makefile).context("a Makefile without a version")?;
    if found != release {
        bail!("the package is of {found}");
    }
    Ok(unpacked)
}

/// The release that the kernel's Makefile is of.
fn version(makefile: &str) -> Option<String> {
    let values: BTreeMap<_, _> = makefile
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let number = |name| values.get(name).copied();
    Some(format!(
        "{}.{}.{}",
        number("VERSION")?,
        number("PATCHLEVEL")?,
        number("SUBLEVEL")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "see [`f`][f]\n\n\
        [f]: https://github.com/gregkh/linux/blob/v6.12.1/net/a.c#L3\n";

    #[test]
    fn links_are_read_and_form_a_whole() {
        let found = links(DOCUMENT).unwrap();
        assert_eq!(
            found,
            [Link {
                function: "f",
                release: "6.12.1",
                file: "net/a.c",
                line: 3
            }]
        );
        let unused = DOCUMENT.replace("see", "not").replace("[`f`][f]", "");
        assert!(links(&unused).is_err());
        let undefined = DOCUMENT.replace("see", "see [`g`][g],");
        assert!(links(&undefined).is_err());
        let moved = DOCUMENT.replace("gregkh", "someone");
        assert!(links(&moved).is_err());
        let other = "[`g`][g]\n[g]: https://github.com/gregkh/linux/blob/v6.1.1/net/a.c#L3\n";
        assert!(links(&format!("{DOCUMENT}{other}")).is_err());
    }

    #[test]
    fn definitions_are_told_from_calls_and_declarations() {
        assert!(begins("static int f(struct net *net,", "f"));
        assert!(begins("f(const struct nft_ctx *ctx,", "f"));
        assert!(!begins("static int f(struct net *net);", "f"));
        assert!(!begins("\terr = f(net,", "f"));
        assert!(!begins("static int nf_f(struct net *net,", "f"));
    }

    #[test]
    fn the_makefile_tells_the_release() {
        let text = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";
        assert_eq!(version(text).as_deref(), Some("6.12.117"));
        assert_eq!(version("VERSION = 6\n"), None);
    }

    /// The document of this tree.
    #[test]
    fn the_document_can_be_read() {
        let path = sh::root().join("docs/KERNEL.md");
        assert!(links(&fs::read_to_string(path).unwrap()).unwrap().len() > 60);
    }
}
