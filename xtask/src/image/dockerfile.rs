//! As much of a Dockerfile as ours uses: stages, `RUN` in a shell, `COPY` from a stage, `ENTRYPOINT`.

use anyhow::{Context, Result, bail, ensure};

/// The stages of a Dockerfile.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dockerfile {
    pub(super) stages: Vec<Stage>,
}

/// From one `FROM` to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) base: String,
    pub(super) name: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// An instruction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A folder of the image from then on.
    WorkDir(String),
    /// For `sh -c`.
    Run(String),
    /// From a stage, or from the repository.
    Copy {
        stage: Option<String>,
        from: String,
        to: String,
    },
    /// Program and arguments.
    EntryPoint(Vec<String>),
}

impl Dockerfile {
    /// Reads one; what is not understood is an error, so that nothing goes undone in silence.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut stages: Vec<Stage> = Vec::new();
        for instruction in instructions(text) {
            let (word, rest) = instruction.split_once(' ').context("an instruction")?;
            let rest = rest.trim();
            if word == "FROM" {
                let words: Vec<_> = rest.split_whitespace().collect();
                let (base, name) = match *words.as_slice() {
                    [base] => (base, None),
                    [base, "AS", name] => (base, Some(name.to_owned())),
                    _ => bail!("FROM {rest}"),
                };
                stages.push(Stage {
                    base: base.to_owned(),
                    name,
                    steps: Vec::new(),
                });
                continue;
            }
            let stage = stages.last_mut().context("an instruction before FROM")?;
            stage.steps.push(step(word, rest)?);
        }
        ensure!(!stages.is_empty(), "no FROM");
        Ok(Self { stages })
    }
}

fn step(word: &str, rest: &str) -> Result<Step> {
    Ok(match word {
        "WORKDIR" => Step::WorkDir(rest.to_owned()),
        "RUN" => Step::Run(rest.to_owned()),
        "ENTRYPOINT" => Step::EntryPoint(serde_json::from_str(rest).context("ENTRYPOINT")?),
        "COPY" => {
            let (stage, rest) = match rest.strip_prefix("--from=") {
                Some(rest) => {
                    let (stage, rest) = rest.split_once(' ').context("COPY --from")?;
                    (Some(stage.to_owned()), rest)
                }
                None => (None, rest),
            };
            let words: Vec<_> = rest.split_whitespace().collect();
            let &[from, to] = words.as_slice() else {
                bail!("COPY {rest}");
            };
            Step::Copy {
                stage,
                from: from.to_owned(),
                to: to.to_owned(),
            }
        }
        other => bail!("{other} is not understood"),
    })
}

/// Lines joined at their backslashes, without comments, also those between joined lines.
fn instructions(text: &str) -> Vec<String> {
    let mut instructions = Vec::new();
    let mut joined = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => joined.push_str(part),
            None => {
                joined.push_str(line);
                let instruction = core::mem::take(&mut joined);
                if !instruction.trim().is_empty() {
                    instructions.push(instruction);
                }
            }
        }
    }
    instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_understood() {
        let text = include_str!("../../../deploy/Dockerfile");
        let dockerfile = Dockerfile::parse(text).unwrap();
        let [build, image] = dockerfile.stages.as_slice() else {
            panic!("{dockerfile:?}");
        };
        assert_eq!(build.name.as_deref(), Some("build"));
        let Some(Step::Run(script)) = build.steps.last() else {
            panic!("{build:?}");
        };
        assert!(
            !script.contains('#') && script.contains("&& ln -s kproxy"),
            "{script}"
        );
        assert_eq!(image.base, "scratch");
        assert_eq!(image.steps.len(), 2);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "",
            "RUN x",
            "FROM a b",
            "FROM a\nUSER 1",
            "FROM a\nCOPY a b c",
            "FROM a\nENTRYPOINT x",
        ] {
            assert!(Dockerfile::parse(text).is_err(), "{text}");
        }
    }
}
