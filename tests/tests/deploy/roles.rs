//! The ClusterRole of `deploy/base` is least: without any verb of any rule something is refused.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Method, Options, Request},
    deploy::Kind,
};
use serde_json::{Value as Json, json};

use crate::{have_programs, stage::Stage};

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kproxy";
/// How often the API server is asked until it knows of a change.
const LOOKS: usize = 1_000;

#[test]
fn each_verb_of_each_rule_is_needed() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    // With streaming lists there is nothing to list; older API servers do not have them.
    let control = ControlPlane::start_with(Options {
        rbac: true,
        no_streaming_lists: true,
    })?;
    let mut stage = Stage::new(&control, Kind::Ours)?;
    stage.start()?;
    stage.pod.stop()?;
    let whole: Json = serde_json::from_str(&control.client().get(ROLE)?.body)?;
    let rules = whole["rules"].as_array().context("no rules")?.clone();
    ensure!(!rules.is_empty(), "no rules");
    for (number, rule) in rules.iter().enumerate() {
        for verb in rule["verbs"].as_array().context("no verbs")? {
            let mut less = rules.clone();
            let verbs = less[number]["verbs"].as_array_mut().context("no verbs")?;
            verbs.retain(|other| other != verb);
            if verbs.is_empty() {
                less.remove(number);
            }
            put_rules(&control, &less)?;
            let resource = rule["resources"][0].as_str().context("no resource")?;
            let verb = verb.as_str().context("no verb")?;
            let group = rule["apiGroups"][0].as_str().context("no group")?;
            await_denial(&mut stage, verb, group, resource)?;
        }
    }
    put_rules(&control, &rules)
}

fn put_rules(control: &ControlPlane, rules: &[Json]) -> Result<()> {
    let mut role: Json = serde_json::from_str(&control.client().get(ROLE)?.body)?;
    role["rules"] = json!(rules);
    let request = Request::new(Method::Put, ROLE).with(role);
    let answer = control.client().send_one(&request)?;
    ensure!(answer.is_ok(), "{}", answer.message());
    Ok(())
}

/// kproxy, started anew, is refused what was taken away.
fn await_denial(stage: &mut Stage<'_>, verb: &str, group: &str, resource: &str) -> Result<()> {
    let what = format!("{verb} {resource}");
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": stage.installed.user(),
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource}
        }
    });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = Request::new(Method::Post, reviews).with(review);
    // The API server reads its own roles by a watch.
    let mut looks = 0;
    loop {
        let answer = stage.control.client().send_one(&review)?;
        let answer: Json = serde_json::from_str(&answer.body)?;
        if answer["status"]["allowed"] == false {
            break;
        }
        looks += 1;
        ensure!(looks < LOOKS, "{what} is still allowed: {answer}");
    }
    let from = stage.asked()?.len();
    stage.pod.start(stage.world.node())?;
    stage.until(&format!("{what} is refused"), |stage| {
        let asked = stage.asked()?;
        let mut asked = asked.iter().skip(from);
        Ok(asked
            .any(|entry| entry.forbidden && (&*entry.verb, &*entry.resource) == (verb, resource)))
    })?;
    stage.pod.program()?.kill()?;
    Ok(())
}
