//! What all pages have in common.

use core::fmt::{self, Write as _};
use core::time::Duration;
use std::time::SystemTime;

/// Text in which nothing is markup, whoever wrote it.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'a>(&'f mut fmt::Formatter<'a>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
            let mut letters = part.chars();
            let entity = match letters.next_back() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                _ => {
                    self.0.write_str(part)?;
                    continue;
                }
            };
            self.0.write_str(letters.as_str())?;
            self.0.write_str(entity)?;
        }
        Ok(())
    }
}

/// A page that is being written.
pub(super) struct Page(String);

impl Page {
    /// `place` is the page's own link in the menu.
    pub(super) fn new(title: &str, node: &str, place: &str) -> Self {
        let mut page = Self(String::with_capacity(16 << 10));
        let (title, node) = (Escaped(title), Escaped(node));
        page.add(format_args!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title} · kproxy {node}</title><style>{STYLE}</style></head><body>\
             <header><b>kproxy</b> <span class=\"node\">{node}</span><nav>"
        ));
        for (link, name) in [("/statusz", "Overview"), ("/statusz/services", "Services")] {
            let here = if link == place {
                " aria-current=\"page\""
            } else {
                ""
            };
            page.add(format_args!("<a href=\"{link}\"{here}>{name}</a>"));
        }
        page.add(format_args!("</nav></header><main>"));
        page
    }

    pub(super) fn add(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(text);
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</main></body></html>\n");
        self.0
    }
}

/// A time in the past, as long ago as it is.
pub(super) struct Ago(pub(super) Duration);

impl Ago {
    pub(super) fn since(time: SystemTime) -> Self {
        Self(time.elapsed().unwrap_or_default())
    }
}

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => f.write_str("just now"),
            seconds @ 1..=119 => write!(f, "{seconds} s ago"),
            seconds @ 120..=7199 => write!(f, "{} min ago", seconds / 60),
            seconds @ 7200..=172_799 => write!(f, "{} h ago", seconds / 3600),
            seconds => write!(f, "{} days ago", seconds / 86_400),
        }
    }
}

/// A short time.
pub(super) struct Took(pub(super) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_secs_f64() * 1e3;
        if milliseconds < 10.0 {
            write!(f, "{milliseconds:.2} ms")
        } else if milliseconds < 1000.0 {
            write!(f, "{milliseconds:.0} ms")
        } else {
            write!(f, "{:.1} s", milliseconds / 1e3)
        }
    }
}

/// A number with its thousands apart.
pub(super) struct Grouped(pub(super) u64);

impl Grouped {
    pub(super) fn of(count: usize) -> Self {
        Self(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let first = digits.len() % 3;
        let (head, tail) = digits.split_at(first);
        f.write_str(head)?;
        for (position, three) in tail.as_bytes().chunks(3).enumerate() {
            if position > 0 || first > 0 {
                f.write_str("\u{202f}")?;
            }
            f.write_str(core::str::from_utf8(three).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Colours keep a contrast of at least 4.5 to 1 in both schemes.
const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        let hostile = "<script>alert('1')</script>&\"é";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;é"
        );
        assert_eq!(Escaped("").to_string(), "");
        assert_eq!(Escaped(format_args!("{}<", 1)).to_string(), "1&lt;");
    }

    #[test]
    fn numbers_and_times() {
        let grouped = |number| Grouped(number).to_string();
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1\u{202f}000");
        assert_eq!(grouped(12_345_678), "12\u{202f}345\u{202f}678");
        let ago = |seconds| Ago(Duration::from_secs(seconds)).to_string();
        assert_eq!(
            [ago(0), ago(90), ago(7199)],
            ["just now", "90 s ago", "119 min ago"]
        );
        let took = |micros| Took(Duration::from_micros(micros)).to_string();
        assert_eq!(
            [took(123), took(12_300), took(1_500_000)],
            ["0.12 ms", "12 ms", "1.5 s"]
        );
    }
}
