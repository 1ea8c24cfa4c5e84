//! Metrics that dashboards and alerts ask for, and those that there are.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value as Json;

/// How the names of metrics that we expose begin.
const OURS: [&str; 5] = [
    "kproxy_",
    "kubeproxy_",
    "kubernetes_",
    "process_",
    "rest_client_",
];
/// What a scrape adds by itself.
const OF_PROMETHEUS: [&str; 1] = ["up"];
/// Words of the query language, its functions, and labels that are named outside of braces.
const WORDS: [&str; 30] = [
    "absent",
    "and",
    "avg",
    "by",
    "changes",
    "clamp_min",
    "code",
    "count",
    "histogram_quantile",
    "increase",
    "instance",
    "ip_family",
    "job",
    "kind",
    "label_replace",
    "le",
    "max",
    "min",
    "node",
    "on",
    "or",
    "rate",
    "reason",
    "set",
    "sum",
    "time",
    "topk",
    "traffic_policy",
    "unless",
    "without",
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queries {
    /// PromQL, with where it is from.
    pub queries: Vec<(String, String)>,
}

impl Queries {
    /// Those of Grafana's dashboard.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn of_dashboard() -> Result<Self> {
        let path = super::path("monitoring/dashboard.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let dashboard: Json = serde_json::from_str(&text)?;
        let mut queries = Self::default();
        for panel in dashboard["panels"].as_array().context("no panels")? {
            let title = panel["title"].as_str().context("a panel without a title")?;
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"]
                    .as_str()
                    .context("a target without a query")?;
                queries.queries.push((title.to_owned(), query.to_owned()));
            }
        }
        ensure!(!queries.queries.is_empty(), "no query");
        Ok(queries)
    }

    /// Those of the alert rules.
    ///
    /// # Errors
    /// When they are malformed.
    pub fn of_alerts() -> Result<Self> {
        let rules = rules()?;
        let mut queries = Self::default();
        for group in rules["groups"].as_array().context("no groups")? {
            for rule in group["rules"].as_array().context("no rules")? {
                let name = rule["alert"].as_str().context("no alert")?;
                let query = rule["expr"].as_str().context("no query")?;
                queries.queries.push((name.to_owned(), query.to_owned()));
            }
        }
        ensure!(!queries.queries.is_empty(), "no query");
        Ok(queries)
    }

    /// Which metric of which query does not exist. A word that is neither a metric nor known is
    /// an error: else a mistyped name would pass for a function.
    ///
    /// # Errors
    /// The word.
    pub fn missing(&self, exposed: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for (place, query) in &self.queries {
            for word in words(query) {
                if OURS.iter().any(|prefix| word.starts_with(prefix)) {
                    if !exposed.contains(&word) {
                        missing.push(format!("{place}: {word}"));
                    }
                    continue;
                }
                let known = WORDS.contains(&&*word) || OF_PROMETHEUS.contains(&&*word);
                ensure!(known, "{place}: what is {word:?}?");
            }
        }
        Ok(missing)
    }
}

/// The alert rules, as a rule file of Prometheus.
///
/// # Errors
/// When they are malformed.
pub fn rules() -> Result<Json> {
    let path = super::path("monitoring/prometheus-rule.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let resource: Json = serde_saphyr::from_str(&text)?;
    Ok(resource["spec"].clone())
}

/// Names that may be asked for, of a page in Prometheus' or OpenMetrics' text form: those of samples,
/// and of all that are declared, as one without labels yet has no sample.
#[must_use]
pub fn exposed(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = declared.split_once(' ') else {
                continue;
            };
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let bare = name.strip_suffix("_total").unwrap_or(name);
            names.extend(suffixes.iter().map(|suffix| format!("{bare}{suffix}")));
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}

/// Identifiers of a query that are outside of strings, braces and brackets.
fn words(query: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut depth, mut quote) = (0_usize, None);
    for letter in query.chars().chain([' ']) {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0
            && quote.is_none()
            && (letter.is_ascii_alphanumeric() || "_:$".contains(letter))
        {
            word.push(letter);
        } else if !word.is_empty() {
            let done = core::mem::take(&mut word);
            // Numbers, and variables of Grafana.
            if done.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
                words.push(done);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_queries() {
        let query =
            "sum by (node) (rate(kproxy_x_total{job=\"kproxy_y\", a=\"b\"}[5m])) > 1e3 / $z";
        assert_eq!(
            words(query),
            ["sum", "by", "node", "rate", "kproxy_x_total"]
        );
    }

    #[test]
    fn what_is_missing_is_named_and_typing_errors_are_not_functions() {
        let page = "# TYPE kproxy_a counter\nkproxy_a_total 1\n# TYPE kproxy_b histogram\n";
        let exposed = exposed(page);
        let of = |query: &str| Queries {
            queries: vec![("here".into(), query.into())],
        };
        let fine = of("rate(kproxy_a_total[1m]) + kproxy_b_bucket");
        assert_eq!(fine.missing(&exposed).unwrap(), Vec::<String>::new());
        assert_eq!(
            of("kproxy_a").missing(&exposed).unwrap(),
            ["here: kproxy_a"]
        );
        assert!(of("rat(kproxy_a_total)").missing(&exposed).is_err());
    }
}
