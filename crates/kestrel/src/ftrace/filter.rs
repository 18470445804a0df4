//! A filter of tracefs (kernel/trace/trace_events_filter.c) as a predicate of the language: `prev_pid == 0 && next_comm ~ "k*"` becomes
//! `args.prev_pid == 0 && glob(args.next_comm, "k*")`.

use super::token::{Token, span, tokens};
use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::procfs::CpuList;
use kestrel_kernel::tracefs::Format;

/// Deepest nesting of parentheses and `!`.
const DEEPEST: u32 = 100;

/// A predicate for an event with these fields; without its format, which only tracepoints have, every word but `common_pid`, `CPU` and `COMM`
/// is a field.
///
/// # Errors
/// The error in a filter, and its place.
pub(super) fn predicate(filter: &str, format: Option<&Format>) -> Result<String, Diagnostic> {
    let mut reader = Reader {
        tokens: tokens(filter)?,
        at: 0,
        end: filter.len(),
        deep: 0,
        format,
        out: String::new(),
    };
    reader.any()?;
    match reader.tokens.get(reader.at) {
        None => Ok(reader.out),
        Some((_, span)) => Err(Diagnostic::error(*span, "`&&` or `||` is missing before this")),
    }
}

/// Type as which an expression is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Number,
    Text,
    /// An address; a text may lie there.
    Address,
    /// A field whose type is not known.
    Unknown,
}

struct Reader<'a> {
    tokens: Vec<(Token, Span)>,
    at: usize,
    end: usize,
    deep: u32,
    format: Option<&'a Format>,
    out: String,
}

impl Reader<'_> {
    fn is(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some((Token::Sign(there), _)) if *there == sign);
        self.at += usize::from(is);
        is
    }

    fn next(&mut self, wanted: &str) -> Result<(Token, Span), Diagnostic> {
        let end = span(self.end, self.end);
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| Diagnostic::error(end, format!("{wanted} is missing here")))
    }

    /// `a || b`.
    fn any(&mut self) -> Result<(), Diagnostic> {
        self.all()?;
        while self.is("||") {
            self.out.push_str(" || ");
            self.all()?;
        }
        Ok(())
    }

    /// `a && b`.
    fn all(&mut self) -> Result<(), Diagnostic> {
        self.one()?;
        while self.is("&&") {
            self.out.push_str(" && ");
            self.one()?;
        }
        Ok(())
    }

    /// `!a`, `(a)`, or a comparison.
    fn one(&mut self) -> Result<(), Diagnostic> {
        let (not, open) = (self.is("!"), self.is("("));
        if !not && !open {
            return self.comparison();
        }
        self.deep += 1;
        if self.deep > DEEPEST {
            let message = format!("more than {DEEPEST} parentheses in each other");
            return Err(Diagnostic::error(span(0, self.end), message));
        }
        self.out.push_str(if not { "!(" } else { "(" });
        match open {
            true => self.any()?,
            false => self.one()?,
        }
        self.out.push(')');
        self.deep -= 1;
        if open && !self.is(")") {
            let at = self
                .tokens
                .get(self.at)
                .map_or(span(self.end, self.end), |it| it.1);
            return Err(Diagnostic::error(at, "`)` is missing here"));
        }
        Ok(())
    }

    /// `FIELD OPERATOR VALUE`.
    fn comparison(&mut self) -> Result<(), Diagnostic> {
        let (subject, kind) = match self.next("a field's name")? {
            (Token::Word(name), place) => self.subject(&name, place)?,
            (_, place) => return Err(Diagnostic::error(place, "a field's name should stand here")),
        };
        let (operator, operator_at) = match self.next("an operator")? {
            (Token::Sign(sign), place) if !matches!(sign, "&&" | "||" | "!" | "(" | ")") => (sign, place),
            (_, place) => {
                return Err(Diagnostic::error(place, "an operator should stand here")
                    .hint("there are == != < <= > >= & and ~"));
            }
        };
        let compared = match self.next("a value")? {
            (Token::Text(text), place) => {
                text_compared((&subject, kind), (operator, operator_at), &text, place)?
            }
            (Token::Word(word), place) => {
                number_compared((&subject, kind), (operator, operator_at), &word, place)?
            }
            (Token::Cpus(cpus), place) => {
                cpus_compared((&subject, kind), (operator, operator_at), &cpus, place)?
            }
            (_, place) => return Err(Diagnostic::error(place, "a value should stand here")),
        };
        self.out.push_str(&compared);
        Ok(())
    }

    /// A field as the language has it: one of the event's own before those that every event has, as in the kernel.
    fn subject(&self, word: &str, place: Span) -> Result<(String, Subject), Diagnostic> {
        let (name, how) = match word.split_once('.') {
            Some((name, how)) => (name, Some(how)),
            None => (word, None),
        };
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return Err(Diagnostic::error(place, "a field's name should stand here"));
        }
        if how.is_some_and(|how| how != "ustring") {
            let message = format!("fields have no form `{}` here", how.unwrap_or_default());
            return Err(Diagnostic::error(place, message)
                .hint("there is .ustring, for a string in the memory of a process"));
        }
        let own = self
            .format
            .and_then(|format| format.fields.iter().find(|field| field.name == name));
        let kind = match own {
            Some(field) if field.is_array() && field.type_text.contains("char") => Subject::Text,
            Some(field) if field.type_text.contains('*') => Subject::Address,
            Some(_) => Subject::Number,
            None => Subject::Unknown,
        };
        match (own, name) {
            (None, "common_pid") => return Ok(("tid".to_owned(), Subject::Number)),
            (None, "CPU" | "cpu") => return Ok(("cpu".to_owned(), Subject::Number)),
            (None, "COMM" | "comm") => return Ok(("comm".to_owned(), Subject::Text)),
            (None, "common_type" | "common_flags" | "common_preempt_count" | "stacktrace") => {
                let message = format!("`{name}` cannot be filtered by: Kestrel's programs are not given it");
                return Err(Diagnostic::error(place, message));
            }
            _ => {}
        }
        Ok(match how {
            Some(_) => (format!("str(args.{name})"), Subject::Text),
            None => (format!("args.{name}"), kind),
        })
    }
}

/// A comparison with a text in quotes.
fn text_compared(
    (subject, kind): (&str, Subject),
    (operator, operator_at): (&str, Span),
    text: &str,
    place: Span,
) -> Result<String, Diagnostic> {
    let subject = match kind {
        Subject::Address => format!("str({subject})"),
        Subject::Number => {
            return Err(Diagnostic::error(place, "this field is a number, and no string"));
        }
        Subject::Text | Subject::Unknown => subject.to_owned(),
    };
    let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    match operator {
        "~" => Ok(format!("glob({subject}, {quoted})")),
        "==" | "!=" => Ok(format!("{subject} {operator} {quoted}")),
        _ => {
            let message = format!("strings have no {operator}");
            Err(Diagnostic::error(operator_at, message)
                .hint("they are compared by == and !=, and with patterns by ~"))
        }
    }
}

/// A comparison with a number.
fn number_compared(
    (subject, kind): (&str, Subject),
    (operator, operator_at): (&str, Span),
    word: &str,
    place: Span,
) -> Result<String, Diagnostic> {
    let Some(number) = number(word) else {
        let failure = Diagnostic::error(place, format!("`{word}` is no number"));
        return Err(failure.hint(format!("strings stand in quotes: \"{word}\"")));
    };
    match (operator, kind) {
        ("~", _) => Err(Diagnostic::error(
            operator_at,
            "~ compares with a string in quotes",
        )),
        (_, Subject::Text) => Err(Diagnostic::error(place, "this field is a string")
            .hint(format!("strings stand in quotes: \"{word}\""))),
        ("&", _) => Ok(format!("({subject} & {number}) != 0")),
        _ => Ok(format!("{subject} {operator} {number}")),
    }
}

/// `CPU & CPUS{0-3}`: one of these. A set is compared by `==` and `!=`, too: a single CPU equals one of one CPU only.
fn cpus_compared(
    (subject, kind): (&str, Subject),
    (operator, operator_at): (&str, Span),
    cpus: &str,
    place: Span,
) -> Result<String, Diagnostic> {
    if matches!(kind, Subject::Text | Subject::Address) {
        return Err(Diagnostic::error(
            place,
            "CPUS{…} is for numbers, and this field is none",
        ));
    }
    let list = CpuList::parse(cpus).map_err(|error| Diagnostic::error(place, error.to_string()))?;
    let none = || Diagnostic::error(place, "no CPU is named");
    // Two of the set are as good as all of them: nothing equals both.
    let both = |joint: &str| {
        let first = list.iter().take(2);
        let compared: Vec<String> = first.map(|cpu| format!("{subject} {operator} {cpu}")).collect();
        (!compared.is_empty()).then(|| format!("({})", compared.join(joint)))
    };
    match operator {
        "&" => one_of_cpus(subject, &list).ok_or_else(none),
        "==" => both(" && ").ok_or_else(none),
        "!=" => both(" || ").ok_or_else(none),
        _ => Err(Diagnostic::error(
            operator_at,
            "CPUS{…} stands behind &, == and != only",
        )),
    }
}

/// Condition that `subject` is one of these CPUs, by runs: a machine may have hundreds. `None` where there are none.
pub(crate) fn one_of_cpus(subject: &str, list: &CpuList) -> Option<String> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in list.iter() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |(first, last): &(u32, u32)| match first == last {
        true => format!("{subject} == {first}"),
        false => format!("({subject} >= {first} && {subject} <= {last})"),
    };
    let any: Vec<String> = runs.iter().map(run).collect();
    (!any.is_empty()).then(|| any_of(&any))
}

/// Alternatives in brackets, halved where there are many: one after another they nest deeper than the parser goes.
fn any_of(conditions: &[String]) -> String {
    if conditions.len() <= 16 {
        return format!("({})", conditions.join(" || "));
    }
    let (first, second) = conditions.split_at(conditions.len() / 2);
    format!("({} || {})", any_of(first), any_of(second))
}

/// A number as `kstrtoll` takes it: decimal, hexadecimal (0x), octal (0).
fn number(word: &str) -> Option<String> {
    let (minus, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word),
    };
    let value = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => digits.parse(),
    };
    value.ok().map(|value| format!("{minus}{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 1\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:const char * filename;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\n\
        print fmt: \"\"\n";

    #[test]
    fn filters_become_predicates() {
        let format = Format::parse(SWITCH).unwrap();
        for (filter, wanted) in [
            ("prev_pid == 0", "args.prev_pid == 0"),
            (
                "prev_pid==0&&prev_comm~\"k*\"",
                "args.prev_pid == 0 && glob(args.prev_comm, \"k*\")",
            ),
            (
                "!(prev_comm != 'sh') || common_pid > 0x10",
                "!(args.prev_comm != \"sh\") || tid > 16",
            ),
            ("prev_pid & 010", "(args.prev_pid & 8) != 0"),
            ("!prev_pid & 1", "!((args.prev_pid & 1) != 0)"),
            ("filename ~ \"/etc/*\"", "glob(str(args.filename), \"/etc/*\")"),
            ("filename.ustring == \"a\"", "str(args.filename) == \"a\""),
            // The event's own field comes first; in capitals it is the current thread's in any case.
            (
                "comm == \"sh\" && COMM == \"ps\"",
                "args.comm == \"sh\" && comm == \"ps\"",
            ),
            ("CPU & CPUS{0,2-3}", "(cpu == 0 || (cpu >= 2 && cpu <= 3))"),
            ("CPU & CPUS{0-511}", "((cpu >= 0 && cpu <= 511))"),
            (
                "CPU == CPUS{1} || CPU != CPUS{0-1}",
                "(cpu == 1) || (cpu != 0 || cpu != 1)",
            ),
            ("CPU == CPUS{0-127}", "(cpu == 0 && cpu == 1)"),
            ("prev_pid >= -1", "args.prev_pid >= -1"),
        ] {
            assert_eq!(
                predicate(filter, Some(&format)).as_deref(),
                Ok(wanted),
                "{filter}"
            );
        }
        assert_eq!(predicate("comm == 'sh'", None).as_deref(), Ok("comm == \"sh\""));
        assert_eq!(predicate("nr == 3", None).as_deref(), Ok("args.nr == 3"));
    }

    #[test]
    fn a_malformed_filter_is_refused_at_its_place() {
        let format = Format::parse(SWITCH).unwrap();
        for (filter, start, why) in [
            ("", 0, "field's name is missing"),
            ("prev_pid", 8, "operator is missing"),
            ("prev_pid == ", 12, "value is missing"),
            ("prev_pid == sh", 12, "no number"),
            ("prev_comm == 3", 13, "is a string"),
            ("COMM & CPUS{0}", 7, "for numbers"),
            ("CPU < CPUS{0}", 4, "&, == and != only"),
            ("prev_pid == \"sh\"", 12, "is a number"),
            ("prev_comm < \"sh\"", 10, "strings have no <"),
            ("prev_pid ~ 3", 9, "string in quotes"),
            ("prev_pid == 1 prev_pid == 2", 14, "missing before"),
            ("(prev_pid == 1", 14, "`)` is missing"),
            ("prev_pid = 1", 9, "has no place"),
            ("prev_comm == \"sh", 13, "does not close"),
            ("common_flags & 1", 0, "not given it"),
            ("prev_pid.function == 1", 0, "no form `function`"),
            ("&& prev_pid == 1", 0, "field's name should"),
        ] {
            let failure = predicate(filter, Some(&format)).unwrap_err();
            assert!(failure.message.contains(why), "{filter}: {}", failure.message);
            assert_eq!(failure.span.start, start, "{filter}: {}", failure.message);
        }
        assert!(predicate(&"(".repeat(10_000), None).is_err());
        let odd: Vec<String> = (0..512).map(|cpu| (2 * cpu + 1).to_string()).collect();
        let odd = CpuList::parse(&odd.join(",")).unwrap();
        let condition = one_of_cpus("cpu", &odd).unwrap();
        let deep = condition.bytes().take_while(|byte| *byte == b'(').count();
        assert!(deep <= 8, "{condition}");
        assert_eq!(condition.matches("cpu == ").count(), 512);
        assert_eq!(one_of_cpus("cpu", &CpuList::default()), None);
        assert!(predicate(&"!".repeat(10_000), None).is_err());
    }
}
