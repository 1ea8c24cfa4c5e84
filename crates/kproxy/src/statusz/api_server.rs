//! What is heard of the API server.

use super::html::{Ago, Escaped, Grouped, Page};
use crate::apiserver::WatchStatus;

/// A card: whether what is in force is what the cluster wants.
pub(super) fn card(page: &mut Page, watches: &[WatchStatus]) {
    let (class, word) = state(watches);
    page.add(format_args!(
        "<section class=\"card\"><h2>API server</h2><span class=\"{class}\">{word}</span>\
         <p class=\"soft\">Objects, and when it last told something</p><dl>"
    ));
    for watch in watches {
        page.add(format_args!(
            "<dt>{}</dt><dd>{}</dd>",
            watch.kind,
            Escaped(told(watch))
        ));
    }
    page.add(format_args!("</dl>"));
    // Most often the same is wrong with all of them.
    let mut errors: Vec<&str> = watches
        .iter()
        .filter_map(|it| it.last_error.as_deref())
        .collect();
    errors.sort_unstable();
    errors.dedup();
    for error in errors {
        page.add(format_args!("<p class=\"bad\">{}</p>", Escaped(error)));
    }
    page.add(format_args!("</section>"));
}

fn state(watches: &[WatchStatus]) -> (&'static str, &'static str) {
    let fails = watches.iter().any(|it| it.last_error.is_some());
    let synced = watches.iter().all(|it| it.synced || it.absent);
    match (fails, synced) {
        (true, true) => (
            "bad",
            "does not answer as it should: what was received stays in force",
        ),
        (true, false) => (
            "bad",
            "does not answer as it should: nothing is programmed before it has",
        ),
        (false, true) => ("good", "watching"),
        (false, false) => ("warn", "receiving the cluster"),
    }
}

fn told(watch: &WatchStatus) -> String {
    if watch.absent {
        return "not there".to_owned();
    }
    let objects = Grouped::of(watch.objects);
    match watch.last_event {
        Some(time) => format!("{objects}, {}", Ago(time.elapsed())),
        None => objects.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;
    use crate::apiserver::ApiBoard;

    fn shown(board: &ApiBoard) -> String {
        let mut page = Page::new("Overview", "node-a", "/statusz");
        card(&mut page, &board.snapshot());
        page.finish()
    }

    #[test]
    fn an_api_server_that_is_lost_is_told() {
        let board = ApiBoard::default();
        for kind in [Kind::Service, Kind::EndpointSlice, Kind::ServiceCidr] {
            board.add(kind);
        }
        assert!(shown(&board).contains("receiving the cluster"));
        board.update(Kind::Service, |it| {
            it.last_error = Some("<refused>".to_owned());
        });
        board.update(Kind::EndpointSlice, |it| {
            it.last_error = Some("<refused>".to_owned());
        });
        let page = shown(&board);
        assert!(page.contains("nothing is programmed"), "{page}");
        assert_eq!(page.matches("&lt;refused&gt;").count(), 1, "{page}");
        for kind in [Kind::Service, Kind::EndpointSlice] {
            board.update(kind, |it| {
                it.synced = true;
                it.objects = 1_234;
            });
        }
        board.update(Kind::ServiceCidr, |it| it.absent = true);
        let page = shown(&board);
        assert!(page.contains("stays in force"), "{page}");
        for kind in [Kind::Service, Kind::EndpointSlice] {
            board.update(kind, |it| it.last_error = None);
        }
        let page = shown(&board);
        assert!(page.contains(">watching<"), "{page}");
        assert!(
            page.contains("<dt>Service</dt><dd>1\u{202f}234</dd>"),
            "{page}"
        );
        assert!(page.contains("<dd>not there</dd>"), "{page}");
    }
}
