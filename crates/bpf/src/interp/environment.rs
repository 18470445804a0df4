//! The environment that helpers report to an interpreted program: every value is the test's to set.

/// Time, task, processor and stacks as helpers see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The monotonic clock, in ns, as the next reading gives it.
    pub clock: u64,
    /// Step of the clock at each reading, in ns.
    pub clock_step: u64,
    /// Thread number (what the kernel calls pid).
    pub tid: u32,
    /// Process number (what the kernel calls tgid).
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Name of the task, at most 15 bytes.
    pub comm: String,
    /// Processor; per-CPU maps follow it.
    pub cpu: u32,
    /// Address of the current `struct task_struct`.
    pub task: u64,
    /// Control group of the task.
    pub cgroup: u64,
    /// Cookie of the attachment.
    pub cookie: u64,
    /// Address of the traced function.
    pub function: u64,
    /// Address that `task_pt_regs` gives.
    pub pt_regs: u64,
    /// Return addresses in the kernel, innermost first.
    pub kernel_stack: Vec<u64>,
    /// Return addresses in the process, innermost first.
    pub user_stack: Vec<u64>,
    /// State of the pseudo-random numbers.
    pub random: u64,
    /// Calls of `trace_printk`: the format strings, undone.
    pub printed: Vec<String>,
    /// The signals that `send_signal` was to send.
    pub signals: Vec<u32>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            clock: 1_000_000_000,
            clock_step: 10,
            tid: 1234,
            pid: 1200,
            uid: 1000,
            gid: 100,
            comm: "worker".to_owned(),
            cpu: 0,
            task: 0xffff_8880_0001_0000,
            cgroup: 7,
            cookie: 0,
            function: 0xffff_ffff_8100_1000,
            pt_regs: 0xffff_c900_0000_3f58,
            kernel_stack: vec![0xffff_ffff_8100_1000, 0xffff_ffff_8100_2000],
            user_stack: vec![0x5555_5555_1000, 0x7fff_f7a0_2000],
            random: 0x2545_f491_4f6c_dd1d,
            printed: Vec::new(),
            signals: Vec::new(),
        }
    }
}

impl Environment {
    /// Reads the clock and advances it.
    pub fn tick(&mut self) -> u64 {
        let now = self.clock;
        self.clock = now.wrapping_add(self.clock_step);
        now
    }

    /// The next pseudo-random number (xorshift; never stuck at zero).
    pub(crate) fn next_random(&mut self) -> u32 {
        let mut x = self.random | 1 << 63;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        (x >> 16) as u32
    }
}
