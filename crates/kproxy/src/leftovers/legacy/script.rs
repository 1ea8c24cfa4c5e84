//! From what `iptables-legacy-save` prints to what `iptables-legacy-restore --noflush` removes: text in, text
//! out. Rules are deleted by the very words that they were printed in.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use crate::leftovers::names::{self, Table};

/// What to feed to `iptables-legacy-restore --noflush`; `None` if nothing is kube-proxy's. Each table
/// changes at once or not at all.
pub(super) fn removal(saved: &str) -> Option<String> {
    let mut script = String::new();
    let mut section: Option<Section<'_>> = None;
    for line in saved.lines() {
        match line.split_at_checked(1) {
            Some(("*", name)) => section = Table::named(name).map(Section::new),
            Some((":", chain)) => {
                if let Some(section) = &mut section {
                    section.chain(chain.split(' ').next().unwrap_or_default());
                }
            }
            Some(("-", _)) => {
                if let Some(section) = &mut section {
                    section.rule(line);
                }
            }
            _ if line == "COMMIT" => {
                if let Some(section) = section.take() {
                    section.write(&mut script);
                }
            }
            _ => {}
        }
    }
    (!script.is_empty()).then_some(script)
}

/// A table.
struct Section<'s> {
    table: Table,
    chains: Vec<&'s str>,
    /// Rules of built-in chains, without the `-A`.
    jumps: Vec<&'s str>,
    /// Chains that rules of others jump to.
    used: BTreeSet<String>,
    /// Chains that the marking chain jumps to.
    marked: BTreeSet<String>,
    /// Whether kube-proxy's chains hold rules.
    filled: bool,
}

impl<'s> Section<'s> {
    const fn new(table: Table) -> Self {
        Self {
            table,
            chains: Vec::new(),
            jumps: Vec::new(),
            used: BTreeSet::new(),
            marked: BTreeSet::new(),
            filled: false,
        }
    }

    fn chain(&mut self, name: &'s str) {
        if self.table.holds(name) {
            self.chains.push(name);
        }
    }

    fn rule(&mut self, line: &'s str) {
        let Some(rule) = line.strip_prefix("-A ") else {
            return;
        };
        let chain = rule.split(' ').next().unwrap_or_default();
        if self.table.holds(chain) && chain != names::MARK {
            self.filled = true;
            return;
        }
        let Some(target) = target(rule).filter(|target| self.table.holds(target)) else {
            return;
        };
        if self.table.holds_jump(chain, &target) && is_plain(rule) {
            self.jumps.push(rule);
        } else if chain == names::MARK {
            self.marked.insert(target);
        } else {
            self.used.insert(target);
        }
    }

    fn write(mut self, script: &mut String) {
        if self.used.remove(names::MARK) {
            self.chains.retain(|chain| *chain != names::MARK);
            self.used.append(&mut self.marked);
        }
        let unused = |chain: &&&str| !self.used.contains(**chain);
        let nothing = self.jumps.is_empty() && !self.filled;
        if nothing && self.chains.iter().find(unused).is_none() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(script, "*{}", self.table);
        for chain in &self.chains {
            let _ = writeln!(script, ":{chain} - [0:0]");
        }
        for jump in &self.jumps {
            let _ = writeln!(script, "-D {jump}");
        }
        for chain in self.chains.iter().filter(unused) {
            let _ = writeln!(script, "-X {chain}");
        }
        script.push_str("COMMIT\n");
    }
}

/// Whether a rule looks at nothing that kube-proxy's jumps do not look at: the state of a connection, at
/// most. Any other is somebody else's.
fn is_plain(rule: &str) -> bool {
    // Behind the chain's name, options and their values take turns.
    let mut words = words(rule).skip(1);
    while let Some(option) = words.next() {
        let value = words.next().unwrap_or_default();
        let plain = match option.as_str() {
            "-m" => matches!(value.as_str(), "comment" | "conntrack" | "state"),
            "--comment" | "--ctstate" | "--state" | "-j" | "-g" => true,
            _ => false,
        };
        if !plain {
            return false;
        }
    }
    true
}

/// What a rule jumps or goes to, if a chain or target is named.
fn target(rule: &str) -> Option<String> {
    let mut words = words(rule);
    words.find(|word| matches!(word.as_str(), "-j" | "-g"))?;
    words.next()
}

/// The words of a line; those with spaces are in quotes, in which a backslash hides the next character.
fn words(line: &str) -> impl Iterator<Item = String> {
    let mut chars = line.chars().peekable();
    core::iter::from_fn(move || {
        while chars.next_if_eq(&' ').is_some() {}
        chars.peek()?;
        let (mut word, mut quoted) = (String::new(), false);
        while let Some(char) = chars.next() {
            match char {
                '"' => quoted = !quoted,
                '\\' => word.extend(chars.next()),
                ' ' if !quoted => break,
                _ => word.push(char),
            }
        }
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = r#"# Generated by iptables-save v1.8.9
*mangle
:PREROUTING ACCEPT [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:INPUT ACCEPT [12:345]
:FORWARD DROP [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m comment --comment "say \"-j KUBE-FORWARD\" twice" -j DOCKER
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -s 10.0.0.1/32 -j KUBE-MARK-MASQ
COMMIT
# Completed
"#;

    #[test]
    fn everything_of_kube_proxys_goes_and_nothing_else() {
        let script = removal(SAVED).unwrap();
        let expected = r#"*mangle
:KUBE-PROXY-CANARY - [0:0]
-X KUBE-PROXY-CANARY
COMMIT
*filter
:KUBE-FORWARD - [0:0]
-D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-X KUBE-FORWARD
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-MARK-MASQ
-X KUBE-SEP-AAAAAAAAAAAAAAAA
-X KUBE-SERVICES
-X KUBE-SVC-AAAAAAAAAAAAAAAA
COMMIT
"#;
        assert_eq!(script, expected);
    }

    #[test]
    fn what_others_use_stays_for_them() {
        let used = SAVED.replace(
            "-A KUBE-MARK-MASQ",
            "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ\n-A CNI-X -g KUBE-SERVICES\n-A KUBE-MARK-MASQ",
        );
        let script = removal(&used).unwrap();
        assert!(
            !script.contains("KUBE-MARK-MASQ"),
            "neither emptied nor deleted: {script}"
        );
        assert!(
            script.contains(":KUBE-SERVICES ") && !script.contains("-X KUBE-SERVICES"),
            "emptied, not deleted: {script}"
        );
        assert!(script.contains("-X KUBE-SVC-AAAAAAAAAAAAAAAA"), "{script}");
    }

    #[test]
    fn a_jump_that_looks_at_more_than_kube_proxys_is_somebody_elses() {
        let plain =
            "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n";
        for theirs in [
            "-A PREROUTING -s 198.51.100.7/32 -j KUBE-SERVICES\n",
            "-A PREROUTING -i eth0 -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n",
            "-A OUTPUT ! -o lo -j KUBE-SERVICES\n",
            "-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-SERVICES\n",
        ] {
            let script = removal(&SAVED.replace(plain, &format!("{theirs}{plain}"))).unwrap();
            assert!(
                !script.contains(theirs.trim_start_matches("-A")),
                "{script}"
            );
            assert!(script.contains(&plain.replace("-A ", "-D ")), "{script}");
            assert!(
                script.contains(":KUBE-SERVICES ") && !script.contains("-X KUBE-SERVICES"),
                "emptied, not deleted: {script}"
            );
        }
        let new = plain.replace("-m comment", "-m conntrack --ctstate NEW -m comment");
        let script = removal(&SAVED.replace(plain, &new)).unwrap();
        assert!(script.contains("-X KUBE-SERVICES"), "{script}");
    }

    #[test]
    fn done_is_done() {
        assert_eq!(removal(""), None);
        let rest = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-SERVICES - [0:0]\n\
                    -A CNI-X -j KUBE-MARK-MASQ\n-A CNI-X -j KUBE-SERVICES\n\
                    -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n";
        assert_eq!(removal(rest), None, "only what others use is left");
        let raw = "*raw\n:KUBE-SERVICES - [0:0]\nCOMMIT\n";
        assert_eq!(removal(raw), None, "kube-proxy has no chains there");
    }

    #[test]
    fn words_are_told_apart_as_iptables_does() {
        let rule = r#"INPUT -m comment --comment "a \"b\" -j C" -j  D"#;
        assert_eq!(target(rule).as_deref(), Some("D"));
        assert_eq!(target("INPUT -g E -m x"), Some("E".to_owned()));
        assert_eq!(target("INPUT -p tcp"), None);
    }
}
