//! What a page is asked for, behind the question mark.

use core::fmt::Write as _;

use super::Parameters;

/// Decoded parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query(Parameters);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// A parameter, empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A number, 0 if it is none.
    pub(super) fn number(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or_default()
    }
}

/// A query of these parameters, to be put into a link; empty ones are left out.
pub(super) fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        encoded.append_pair(name, value);
    }
    let mut link = path.to_owned();
    let query = encoded.finish();
    if !query.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(link, "?{query}");
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let hostile = "a&b=c d/\"<é>%";
        let link = link("/x", &[("q", hostile), ("page", ""), ("n", "7")]);
        let query = Query::parse(link.strip_prefix("/x?").unwrap());
        assert_eq!(query.text("q"), hostile);
        assert_eq!((query.number("n"), query.number("page")), (7, 0));
        assert_eq!(Query::parse("q=%zz&&=").text("q"), "%zz");
        assert_eq!(super::link("/x", &[("q", "")]), "/x");
    }
}
