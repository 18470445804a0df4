/* A program that passes a USDT probe forty times and ends with the probe's count of listeners as its status. */
	.text
	.globl _start
_start:
	subq	$16, %rsp
	movl	$-3, %edi
	movq	$7, 8(%rsp)
	leaq	table(%rip), %rax
	movl	$2, %edx
	xorl	%ebx, %ebx
1:
mark:
	nop
	incl	%ebx
	cmpl	$40, %ebx
	jne	1b
	movzwl	listeners(%rip), %edi
	movl	$60, %eax
	syscall

	.data
table:
	.long	10, 20, 30
	.section .probes, "aw", @progbits
	.balign	2
listeners:
	.short	0

	.section .stapsdt.base, "a", @progbits
base:
	.space	1

	.section .note.stapsdt, "", @note
	.balign	4
	.long	2f - 1f, 4f - 3f, 3
1:	.asciz	"stapsdt"
2:	.balign	4
3:	.quad	mark, base, listeners
	.asciz	"own"
	.asciz	"mark"
	.asciz	"-4@%edi 8@8(%rsp) 4@$5 4@(%rax,%rdx,4) 8@%rbx"
4:	.balign	4
