//! Golden files: nft input and the bytes nft sent for it, in a form people can read.
//!
//! ```text
//! case   name of the case
//! setup  line for nft, loaded before and not recorded            (any number)
//! nft    line for nft                                            (any number)
//! keep   NEWRULE NEWSET …   messages of interest, default: all of the batch but its brackets
//! min    1.0.6              older releases take the text for something else
//! since  0.9.8              oldest nft release that can express it
//! from   1.0.6              release the bytes below are from
//! > 30000000 060a 0104 00000000 00000000 02000000        message header and nfgenmsg
//!   0600 0100 7400 0000                                  one attribute a line, nests indented
//! ```
//!
//! The last three kinds of line are written by the recorder. The sequence number (fourth word of a
//! header) is recorded as 0: it counts a batch's messages and says nothing about an encoder. So is
//! padding, see [`messages`].

use core::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// One case of a golden file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Case {
    /// Unique within its file.
    pub name: String,
    /// Lines loaded beforehand.
    pub setup: Vec<String>,
    /// Lines whose messages are recorded.
    pub nft: Vec<String>,
    /// Message names to keep; empty: all of the batch but its begin and end.
    pub keep: Vec<String>,
    /// Releases before this one take the text for something else; empty: none do.
    pub min: String,
    /// Oldest release that can express it.
    pub since: String,
    /// Release the messages are from.
    pub from: String,
    /// The messages, sequence numbers 0.
    pub messages: Vec<Vec<u8>>,
}

/// A golden file: leading comment and cases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Golden {
    /// Where it is.
    pub path: PathBuf,
    /// The comment lines it starts with.
    pub comment: String,
    /// Its cases.
    pub cases: Vec<Case>,
}

impl Golden {
    /// Reads all golden files (`*.txt`) of a folder, in order of their names.
    ///
    /// # Errors
    /// When a file cannot be read or has a line of unknown kind.
    pub fn load_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut paths: Vec<_> = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "txt"));
        paths.sort();
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// Reads one file.
    ///
    /// # Errors
    /// When it cannot be read or has a line of unknown kind.
    pub fn load(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        Self::parse(path, &text).map_err(|reason| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {reason}", path.display()),
            )
        })
    }

    /// The file's name without ending.
    #[must_use]
    pub fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// The case of that name.
    #[must_use]
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mut golden = Self {
            path: path.to_path_buf(),
            ..Self::default()
        };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if line.starts_with('#') {
                golden.comment += line;
                golden.comment += "\n";
                continue;
            }
            let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            if keyword == "case" {
                golden.cases.push(Case {
                    name: rest.to_owned(),
                    ..Case::default()
                });
                continue;
            }
            let Some(case) = golden.cases.last_mut() else {
                return Err(format!("before the first case: {line}"));
            };
            match keyword {
                "setup" => case.setup.push(rest.to_owned()),
                "nft" => case.nft.push(rest.to_owned()),
                "keep" => case.keep = rest.split_whitespace().map(str::to_owned).collect(),
                "min" => rest.clone_into(&mut case.min),
                "since" => rest.clone_into(&mut case.since),
                "from" => rest.clone_into(&mut case.from),
                ">" => case.messages.push(unhex(rest)?),
                "" => {
                    let message = case.messages.last_mut().ok_or("bytes before a header")?;
                    message.extend(unhex(rest)?);
                }
                _ => return Err(format!("unknown line: {line}")),
            }
        }
        Ok(golden)
    }

    /// Writes the file back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self) -> io::Result<()> {
        fs::write(&self.path, self.to_text())
    }

    fn to_text(&self) -> String {
        let mut out = self.comment.clone();
        for case in &self.cases {
            out.push('\n');
            let mut put = |keyword: &str, value: &str| {
                if !value.is_empty() {
                    let _ = writeln!(out, "{keyword:<6} {value}");
                }
            };
            put("case", &case.name);
            case.setup.iter().for_each(|line| put("setup", line));
            case.nft.iter().for_each(|line| put("nft", line));
            put("keep", &case.keep.join(" "));
            put("min", &case.min);
            put("since", &case.since);
            put("from", &case.from);
            for message in &case.messages {
                print_message(&mut out, message);
            }
        }
        out
    }
}

/// Splits a datagram into messages, with their sequence numbers and all padding set to 0: nft's
/// requests carry whatever its stack held there. Bytes that do not form a message end the list.
#[must_use]
pub fn messages(datagram: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = datagram;
    while let Some(header) = rest.first_chunk::<4>() {
        let len = usize::try_from(u32::from_ne_bytes(*header)).unwrap_or(usize::MAX);
        let Some(message) = rest.get(..len.max(16)) else {
            break;
        };
        let mut message = message.to_vec();
        message[8..12].fill(0);
        zero_padding(message.get_mut(20..).unwrap_or_default());
        out.push(message);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    out
}

fn zero_padding(mut attrs: &mut [u8]) {
    while let Some(header) = attrs.first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let nested = u16::from_ne_bytes([header[2], header[3]]) & 0x8000 != 0;
        let end = len.next_multiple_of(4).min(attrs.len());
        if len < 4 || len > end {
            return;
        }
        let (attr, rest) = attrs.split_at_mut(end);
        attr[len..].fill(0);
        if nested {
            zero_padding(&mut attr[4..len]);
        }
        attrs = rest;
    }
}

/// The kernel's name of a message's type (`NFT_MSG_*`, `NFNL_MSG_BATCH_*`).
#[must_use]
pub fn message_name(message: &[u8]) -> &'static str {
    const NAMES: [&str; 34] = [
        "NEWTABLE",
        "GETTABLE",
        "DELTABLE",
        "NEWCHAIN",
        "GETCHAIN",
        "DELCHAIN",
        "NEWRULE",
        "GETRULE",
        "DELRULE",
        "NEWSET",
        "GETSET",
        "DELSET",
        "NEWSETELEM",
        "GETSETELEM",
        "DELSETELEM",
        "NEWGEN",
        "GETGEN",
        "TRACE",
        "NEWOBJ",
        "GETOBJ",
        "DELOBJ",
        "GETOBJ_RESET",
        "NEWFLOWTABLE",
        "GETFLOWTABLE",
        "DELFLOWTABLE",
        "GETRULE_RESET",
        "DESTROYTABLE",
        "DESTROYCHAIN",
        "DESTROYRULE",
        "DESTROYSET",
        "DESTROYSETELEM",
        "DESTROYOBJ",
        "DESTROYFLOWTABLE",
        "GETSETELEM_RESET",
    ];
    match message.get(4..6) {
        Some(&[16, 0]) => "BATCH_BEGIN",
        Some(&[17, 0]) => "BATCH_END",
        Some(&[kind, 10]) => NAMES.get(usize::from(kind)).copied().unwrap_or("?"),
        _ => "?",
    }
}

/// What libnftnl numbers and the kernel does not look at: the attribute types of the entries in an
/// element message's list, 1, 2, 3 …, where the kernel's headers say `NFTA_LIST_ELEM` for all.
#[must_use]
pub fn with_plain_list_types(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let Some(&[kind, 10]) = message.get(4..6) else {
        return message;
    };
    if !matches!(kind, 12..=14 | 30 | 33) {
        return message;
    }
    let mut at = 20;
    while let Some((len, kind)) = attr_at(&message, at) {
        if kind == 0x8003 {
            let (mut inner, end) = (at + 4, at + len);
            while inner < end
                && let Some((len, _)) = attr_at(&message, inner)
            {
                message[inner + 2..inner + 4].copy_from_slice(&0x8001_u16.to_ne_bytes());
                inner += len.next_multiple_of(4);
            }
        }
        at += len.next_multiple_of(4);
    }
    message
}

/// The same attributes with siblings in order of their types. libnftnl and nft put them in several
/// orders, and the kernel takes any.
#[must_use]
pub fn sorted(message: &[u8]) -> Vec<u8> {
    let (head, attrs) = message.split_at(message.len().min(20));
    [head, &sorted_attrs(attrs)].concat()
}

fn sorted_attrs(mut attrs: &[u8]) -> Vec<u8> {
    let mut entries = Vec::new();
    while let Some((len, kind)) = attr_at(attrs, 0) {
        let (attr, rest) = attrs.split_at(len.next_multiple_of(4).min(attrs.len()));
        let mut attr = attr.to_vec();
        if kind & 0x8000 != 0 {
            let inner = sorted_attrs(&attr[4..]);
            attr.splice(4.., inner);
        }
        entries.push((kind & 0x3fff, attr));
        attrs = rest;
    }
    entries.sort_by_key(|(kind, _)| *kind);
    let mut out = entries
        .into_iter()
        .flat_map(|(_, attr)| attr)
        .collect::<Vec<_>>();
    out.extend(attrs);
    out
}

fn attr_at(message: &[u8], at: usize) -> Option<(usize, u16)> {
    let header = message.get(at..)?.first_chunk::<4>()?;
    let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
    (len >= 4).then_some((len, u16::from_ne_bytes([header[2], header[3]])))
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let text = text.split('|').next().unwrap_or_default();
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| {
            digits
                .get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("not hex: {text}"))
}

/// Prints a message; [`Golden::parse`] reads it back. Text after `|` is for people.
fn print_message(out: &mut String, message: &[u8]) {
    let head = message.get(..20).unwrap_or(message);
    let widths = [4, 2, 2, 4, 4, 4];
    let words = split_words(head, &widths);
    let _ = writeln!(out, "> {words}  | {}", message_name(message));
    print_attrs(out, message.get(20..).unwrap_or_default(), 1);
}

fn print_attrs(out: &mut String, mut bytes: &[u8], depth: usize) {
    let indent = "  ".repeat(depth);
    while let Some((header, _)) = bytes.split_first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let nested = u16::from_ne_bytes([header[2], header[3]]) & 0x8000 != 0;
        let end = len.next_multiple_of(4).min(bytes.len());
        if len < 4 {
            break;
        }
        let payload = &bytes[4..end];
        let head = split_words(header, &[2, 2]);
        if nested {
            let _ = writeln!(out, "{indent}{head}");
            print_attrs(out, payload, depth + 1);
        } else {
            let widths = [4; 64];
            let text = bytes.get(4..len).and_then(printable);
            let _ = writeln!(
                out,
                "{}",
                format!(
                    "{indent}{head} {}{}",
                    split_words(payload, &widths),
                    text.map_or_else(String::new, |text| format!("  | {text}"))
                )
                .trim_end()
            );
        }
        bytes = &bytes[end..];
    }
    if !bytes.is_empty() {
        let _ = writeln!(out, "{indent}{}", split_words(bytes, &[]));
    }
}

/// A NUL-terminated name, for the margin.
fn printable(payload: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(payload.strip_suffix(&[0])?).ok()?;
    let graphic = text.chars().all(|c| c.is_ascii_graphic() && c != '|');
    (graphic && text.len() > 1).then_some(text)
}

fn split_words(mut bytes: &[u8], widths: &[usize]) -> String {
    let mut words = Vec::new();
    let mut widths = widths.iter();
    while !bytes.is_empty() {
        let width = widths.next().copied().unwrap_or(bytes.len());
        let (word, rest) = bytes.split_at(width.min(bytes.len()));
        words.push(
            word.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>(),
        );
        bytes = rest;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_survive_a_round_trip() {
        let text = "\
# About this file.

case   add a table
setup  add table ip x
nft    add table ip t
since  0.9.8
from   1.0.6
> 2c000000 000a 0100 00000000 00000000 02000000  | NEWTABLE
  0700 0100 74740000  | tt
  0c00 0480
    0800 0100 00000001
  0400 0500
";
        let golden = Golden::parse(Path::new("x.txt"), text).unwrap();
        assert_eq!(golden.cases[0].messages[0].len(), 0x2c);
        assert_eq!(golden.to_text(), text);
    }

    #[test]
    fn sequence_numbers_and_padding_are_not_recorded() {
        let mut message = vec![0; 36];
        message[..4].copy_from_slice(&36_u32.to_ne_bytes());
        message[20..24].copy_from_slice(&[16_u16, 0x8001].map(u16::to_ne_bytes).concat());
        message[24..28].copy_from_slice(&[5_u16, 2].map(u16::to_ne_bytes).concat());
        message[28] = 7;
        let clean = message.clone();
        message[8] = 9;
        message[29..32].fill(0xff);
        message[32..36].copy_from_slice(&[4_u16, 3].map(u16::to_ne_bytes).concat());
        let mut expected = clean;
        expected[32..36].copy_from_slice(&message[32..36]);
        assert_eq!(messages(&message), [expected]);
    }
}
