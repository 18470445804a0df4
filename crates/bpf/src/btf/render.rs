//! Rendering of types and prototypes as C writes them; for people, not for compilers.

use super::Btf;
use super::find::Function;
use super::raw::TypeId;
use super::types::{Parameter, Prototype, Type};

/// Most types visited for one rendering. What goes beyond, as in a blob whose types contain themselves, is shown as `…`.
const BUDGET: u32 = 512;
/// Most types nested in one another.
const DEPTH: u32 = 32;

impl Btf {
    /// The type as C writes it in a cast: `struct file *`, `int (*)(void)`, `char[16]`.
    pub fn render(&self, id: TypeId) -> String {
        self.declare(id, "")
    }

    /// A declaration of `name`: `struct file * file`, `char comm[16]`.
    pub fn declare(&self, id: TypeId, name: &str) -> String {
        Renderer {
            btf: self,
            left: BUDGET,
        }
        .declare(id, name.to_owned(), 0)
    }

    /// A function's prototype: `ssize_t vfs_read(struct file * file, char * buf, size_t count, loff_t * pos)`.
    pub fn prototype(&self, function: &Function<'_>) -> String {
        let mut renderer = Renderer {
            btf: self,
            left: BUDGET,
        };
        let inner = format!("{}({})", function.name, renderer.parameters(&function.proto, 0));
        renderer.declare(function.proto.ret, inner, 0)
    }

    /// A struct, union or enumeration with its members, one per line; other types as [`Btf::render`] shows them.
    pub fn definition(&self, id: TypeId) -> String {
        match self.resolved(id) {
            Type::Struct(c) => self.members("struct", c, 0),
            Type::Union(c) => self.members("union", c, 0),
            Type::Enum(e) => {
                let lines: String = e
                    .values()
                    .map(|v| format!("\t{} = {},\n", v.name, v.value))
                    .collect();
                format!("{} {{\n{lines}}}", tag("enum", e.name))
            }
            _ => self.render(id),
        }
    }

    /// A struct or union with one member per line; an anonymous struct or union among them is written out in place, indented further.
    fn members(&self, keyword: &str, composite: super::Composite<'_>, depth: usize) -> String {
        let indent = "\t".repeat(depth);
        let head = match composite.name {
            "" => keyword.to_owned(),
            name => format!("{keyword} {name}"),
        };
        let mut text = format!("{head} {{\n");
        for member in composite.members() {
            let width = member.bits.map(|bits| format!(": {bits}")).unwrap_or_default();
            let inner = match self.ty(member.ty) {
                Type::Struct(inner) if inner.name.is_empty() => Some(("struct", inner)),
                Type::Union(inner) if inner.name.is_empty() => Some(("union", inner)),
                _ => None,
            };
            let declaration = match inner {
                Some((keyword, inner)) if depth < DEPTH as usize => {
                    join(&self.members(keyword, inner, depth + 1), member.name)
                }
                // In a definition the star stands at the member's name: `char *buf`.
                _ => self.declare(member.ty, member.name).replacen("* ", "*", 1),
            };
            text += &format!("{indent}\t{declaration}{width};\n");
        }
        text + &indent + "}"
    }
}

/// `struct name`, or `struct {…}` where it has no name.
fn tag(keyword: &str, name: &str) -> String {
    if name.is_empty() {
        format!("{keyword} {{…}}")
    } else {
        format!("{keyword} {name}")
    }
}

/// A type followed by what it declares: `int x`, `int[4]`.
fn join(ty: &str, inner: &str) -> String {
    match inner {
        "" => ty.to_owned(),
        array if array.starts_with('[') => format!("{ty}{array}"),
        _ => format!("{ty} {inner}"),
    }
}

struct Renderer<'a> {
    btf: &'a Btf,
    left: u32,
}

impl Renderer<'_> {
    /// Renders a declaration from the inside out, as C nests them: `inner` is what has been written so far, at first the name.
    fn declare(&mut self, id: TypeId, inner: String, depth: u32) -> String {
        // Types can contain themselves, and BTF from elsewhere can be made to give endless text: number and depth of types are bounded.
        if self.left == 0 || depth > DEPTH {
            return join("…", &inner);
        }
        self.left -= 1;
        let next = depth + 1;
        match self.btf.ty(id) {
            Type::Void => join("void", &inner),
            Type::Unknown => join("?", &inner),
            Type::Int(int) => join(int.name, &inner),
            Type::Float { name, .. } | Type::Typedef { name, .. } => join(name, &inner),
            Type::Struct(c) => join(&tag("struct", c.name), &inner),
            Type::Union(c) => join(&tag("union", c.name), &inner),
            Type::Enum(e) => join(&tag("enum", e.name), &inner),
            Type::Fwd { name, union } => join(&tag(if union { "union" } else { "struct" }, name), &inner),
            Type::Ptr(to) => {
                let pointer = if inner.is_empty() || inner.starts_with(['*', '[', '(']) {
                    format!("*{inner}")
                } else {
                    format!("* {inner}")
                };
                // C binds `*` weaker than `[]` and `()`, so a pointer to these needs parentheses.
                let wrapped = match self.btf.ty(self.btf.unqualified(to)) {
                    Type::FuncProto(_) | Type::Array { .. } => {
                        format!("({})", pointer.replacen("* ", "*", 1))
                    }
                    _ => pointer,
                };
                self.declare(to, wrapped, next)
            }
            Type::Array { element, count, .. } => self.declare(element, format!("{inner}[{count}]"), next),
            Type::FuncProto(proto) => {
                let parameters = self.parameters(&proto, next);
                self.declare(proto.ret, format!("{inner}({parameters})"), next)
            }
            Type::Const(of) => self.qualify("const", of, inner, next),
            Type::Volatile(of) => self.qualify("volatile", of, inner, next),
            Type::Restrict(of) => self.qualify("restrict", of, inner, next),
            Type::TypeTag { ty, .. } => self.declare(ty, inner, next),
            Type::Func { name, proto, .. } => self.declare(proto, name.to_owned(), next),
            Type::Var { name, ty, .. } => self.declare(ty, name.to_owned(), next),
            Type::Datasec { name, .. } => join(name, &inner),
            Type::DeclTag { ty, .. } => self.declare(ty, inner, next),
        }
    }

    /// Writes a qualifier where C has it: behind the star of a pointer (`char * const`), before any other type.
    fn qualify(&mut self, word: &str, of: TypeId, inner: String, depth: u32) -> String {
        match self.btf.ty(self.btf.unqualified(of)) {
            Type::Ptr(_) => self.declare(of, join(word, &inner), depth),
            _ => format!("{word} {}", self.declare(of, inner, depth)),
        }
    }

    /// The parameters of a function, separated by commas; BTF marks a variadic function by a last one of type `void`.
    fn parameters(&mut self, proto: &Prototype<'_>, depth: u32) -> String {
        let one = |p: Parameter<'_>| match self.btf.ty(p.ty) {
            _ if self.left == 0 => "…".to_owned(),
            Type::Void => "...".to_owned(),
            _ => self.declare(p.ty, p.name.to_owned(), depth),
        };
        // A blob from elsewhere may list thousands.
        let list: Vec<String> = proto.parameters().take(64).map(one).collect();
        if list.is_empty() {
            "void".to_owned()
        } else {
            list.join(", ")
        }
    }
}
