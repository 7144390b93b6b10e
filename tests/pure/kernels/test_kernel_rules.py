"""The rules of the kernel language: every text that breaks one is refused with the rule, the line and the column, and something to do.

Features of C that kernels do not have are each refused by name.
"""

from __future__ import annotations

import re

import pytest

from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import RULES, KernelError

HEAD = "void kernel(int i, int n, const float x[n], float y[n]) {\n"


def body(text: str) -> str:
    """A kernel's statements; they begin in line 2, column 3."""
    return f"{HEAD}  {text}\n}}\n"


F = "float f(float a) { return a; }\n"

BAD: dict[str, tuple[str, str, int, int, str]] = {
    # text that is no C
    "an illegal character": (body("y[i] = @;"), "K01", 2, 10, "'@'"),
    "a bracket is missing": (HEAD + "  y[i] = 1;", "K01", 2, 12, "end of input"),
    "one bracket too many": (body("y[i] = 1; }"), "K01", 3, 1, "unexpected `}`"),
    "a semicolon is missing after a name": (body("int k = i\n  y[i] = 1;"), "K01", 3, 3, "unexpected `y`"),
    "a type of C that is not there": (body("int64_t a = 1;"), "K03", 2, 11, "no type `int64_t`"),
    "such a type of a parameter": ("void kernel(int i, int n, int32_t y[n]) {}", "K03", 1, 27, "no type `int32_t`"),
    "such a type of an input": ("void kernel(int i, int n, const real x[n]) {}", "K03", 1, 38, "no type `real`"),
    "such a type behind a mode": ("void kernel(int i, int n, in real x[n]) {}", "K03", 1, 30, "no type `real`"),
    "such a type of a constant": (body("const uint8_t a = 1;"), "K03", 2, 9, "no type `uint8_t`"),
    "such a type of a function": ("real f(float a) { return a; }\n", "K03", 1, 1, "no type `real`"),
    "such a type of a static function": ("static int64_t f(int a) { return a; }\n", "K03", 1, 8, "no type `int64_t`"),
    "a cast to such a type": (body("y[i] = (int64_t)i;"), "K03", 2, 19, "no type `int64_t`"),
    "a semicolon is missing": (body("y[i] = 1"), "K01", 3, 1, "unexpected `}`"),
    "words": ("hello world", "K01", 1, 1, "invalid function"),
    "bytes of zero": ("\0\1\2", "K01", 1, 1, "a byte of zero"),
    "other bytes": ("\7 void", "K01", 1, 1, "illegal character"),
    "a comment that does not end": (body("y[i] = 1; /* and"), "K01", 2, 13, "does not end"),
    "letters of other alphabets": (body("float größe = 1;"), "K01", 2, 11, "illegal character 'ö'"),
    "quotes from a word processor": (body("y[i] = “1”;"), "K01", 2, 10, "illegal character"),
    "brackets without end": (body(f"y[i] = {'(' * 500}1{')' * 500};"), "K01", 2, 509, "too deeply"),
    "blocks without end": (body("{" * 3000 + "}" * 3000), "K01", 2, 3002, "too deeply"),
    "a sum without end": (body(f"y[i] = {'x[i] + ' * 2000}1;"), "K01", 2, 10, "more than 128 operators"),
    "choices without end": (body(f"y[i] = {'i ? 1 : ' * 200}2;"), "K01", 2, 1026, "more than 128 operators"),
    "C++: a class": ("class A {};", "K01", 1, 1, "`class`"),
    "C++: a template": ("template <class T> void kernel(int i, int n) {}", "K01", 1, 1, "`template`"),
    "C++: linkage": ('extern "C" void kernel(int i, int n) {}', "K01", 1, 8, '`extern "C"`'),
    "CUDA": ("__global__ void kernel(int i, int n) {}", "K01", 1, 1, "`__global__`"),
    "OpenCL": ("__kernel void kernel(int i, int n) {}", "K01", 1, 1, "`__kernel`"),
    "typeof": (body("typeof(i) k = 1;"), "K01", 2, 3, "`typeof`"),
    "an attribute after a name": (body("int k __attribute__((unused)) = 1;"), "K01", 2, 9, "`__attribute__`"),
    "an attribute before a type": (body("__attribute__((unused)) int k = 1;"), "K01", 2, 3, "`__attribute__`"),
    "text by an index": (body('y[i] = "abc"[0];'), "K03", 2, 10, '"abc" is text'),
    "an array without a name, by an index": (body("y[i] = ((float[]){1, 2})[0];"), "K01", 2, 11, "an array as a value"),
    "digits in groups": (body("y[i] = 1'000;"), "K01", 2, 10, "1'000 is no number"),
    "C++: a reference": ("void kernel(int i, int n, float &y) {}", "K01", 1, 33, "unexpected `&`"),
    "C++: a range": (body("for (auto a : x) {}"), "K01", 2, 13, "missing type"),
    "OpenCL: vectors": (body("float4 a;"), "K03", 2, 10, "there is no type `float4`"),
    "parameters as in 1978": ("void kernel(i, n) int i; int n; {}", "K01", 1, 6, "1978"),
    "any number of arguments": ("void kernel(int i, int n, ...) {}", "K01", 1, 6, "any number of arguments"),
    "auto": (body("auto int a = 1;"), "K01", 2, 12, "`auto`"),
    "register": (body("register int a = 1;"), "K01", 2, 16, "`register`"),
    "register at a function's parameter": ("float f(register float a) { return a; }\n" + body("y[i] = f(1);"), "K01", 1, 24, "`register`"),
    "register at the kernel's parameter": ("void kernel(int i, int n, register float a) {}", "K01", 1, 42, "`register`"),
    "inline at a variable": (body("inline int a = 1;"), "K01", 2, 14, "`inline`"),
    "_Noreturn": ("_Noreturn void f(void) {}\n" + body(""), "K01", 1, 16, "`_Noreturn`"),
    "a function of elsewhere": ("extern float f(float a);\n" + body(""), "K01", 1, 14, "`extern`"),
    "a compound literal": (body("y[i] = (int){1};"), "K01", 2, 10, "an array as a value"),
    "_Generic": (body("y[i] = _Generic(i, int: 1);"), "K01", 2, 10, "_Generic"),
    "_Static_assert": (body('_Static_assert(1, "a");'), "K01", 2, 3, "_Static_assert"),
    "__attribute__": (f"__attribute__((x)) {HEAD}}}", "K01", 1, 15, "`__attribute__`"),
    "a statement as an expression": (body("y[i] = ({ 1; });"), "K01", 2, 11, "a block as a value"),
    "a function within a function": (body("int f(int a) { return a; }"), "K01", 2, 16, "a function within a function"),
    "a function declared within a function": (body("float f(float);"), "K01", 2, 9, "`f` is declared as a function"),
    "a parameter without a name": ("void f(float) {}\n" + body("f(1);"), "K01", 1, 8, "without a name"),
    # the function `kernel`
    "nothing": ("", "K02", 1, 1, "no function `kernel`"),
    "blanks": (" \n\t\n", "K02", 1, 1, "no function `kernel`"),
    "only a comment": ("/* kernel */", "K02", 1, 1, "no function `kernel`"),
    "another name": ("void leaky(int i, int n) {}", "K02", 1, 1, "no function `kernel`"),
    "only declared": ("void kernel(int i, int n);", "K02", 1, 1, "no function `kernel`"),
    "no parameters": ("void kernel(void) {}", "K02", 1, 6, "0 parameters"),
    "one parameter": ("void kernel(int i) {}", "K02", 1, 6, "1 parameter"),
    "the instance is a float": ("void kernel(float i, int n) {}", "K02", 1, 19, "parameter 1"),
    "the count is an array": ("void kernel(int i, int n[2]) {}", "K02", 1, 24, "parameter 2"),
    "it gives a value": ("int kernel(int i, int n) { return 1; }", "K02", 1, 5, "gives a value"),
    # types
    "unsigned": (body("unsigned a = 1;"), "K03", 2, 3, "`unsigned`"),
    "char": (body("char a = 1;"), "K03", 2, 3, "`char`"),
    "short": (body("short a = 1;"), "K03", 2, 3, "`short`"),
    "size_t": (body("size_t a = 1;"), "K03", 2, 3, "`size_t`"),
    "long double": (body("long double a = 1;"), "K03", 2, 3, "`long double`"),
    "_Complex": (body("float _Complex z;"), "K03", 2, 3, "_Complex"),
    "void": (body("void a;"), "K03", 2, 3, "`void`"),
    "__int128": (body("__int128 a;"), "K03", 2, 3, "__int128"),
    "struct": ("struct s { int a; };\n" + body(""), "K03", 1, 8, "struct"),
    "a struct within a function": (body("struct s { int a; } q;"), "K03", 2, 10, "struct"),
    "union": ("union u { int a; };\n" + body(""), "K03", 1, 7, "union"),
    "enum": ("enum e { A };\n" + body(""), "K03", 1, 1, "enum"),
    "typedef": ("typedef float real;\n" + body(""), "K03", 1, 15, "typedef"),
    "typedef within a function": (body("typedef float real;"), "K03", 2, 17, "typedef"),
    "a member": (body("y[i] = x.a;"), "K03", 2, 10, "members"),
    "a member by an arrow": (body("y[i] = x->a;"), "K03", 2, 10, "members"),
    "text": (body('y[i] = "a";'), "K03", 2, 10, "text"),
    "a letter": (body("y[i] = 'a';"), "K03", 2, 10, "text"),
    "sizeof a type": (body("y[i] = sizeof(int);"), "K03", 2, 10, "sizeof"),
    "sizeof a variable": (body("y[i] = sizeof i;"), "K03", 2, 10, "sizeof"),
    "an unsigned number": (body("y[i] = 1u;"), "K03", 2, 10, "unsigned"),
    "a long double number": (body("y[i] = 1.0L;"), "K03", 2, 10, "long double"),
    "a number of 67 bits": (body("y[i] = 99999999999999999999;"), "K03", 2, 10, "64 bits"),
    "a volatile result": ("volatile float f(void) { return 1; }\n" + body(""), "K03", 1, 16, "`volatile`"),
    "restrict at a number": (body("int restrict a = 1;"), "K03", 2, 16, "`restrict`"),
    "volatile": (body("volatile int a = 1;"), "K03", 2, 16, "`volatile`"),
    "_Atomic": (body("_Atomic int a;"), "K03", 2, 15, "`_Atomic`"),
    "_Alignas": (body("_Alignas(16) int a;"), "K03", 2, 20, "`_Alignas`"),
    "a shared variable": (body("shared int a;"), "K03", 2, 14, "shared"),
    "an input within the kernel": (body("in int a[2];"), "K03", 2, 10, "`in` is for parameters"),
    "a shared parameter": ("void kernel(int i, int n, shared float x[n]) {}", "K03", 1, 40, "global memory"),
    "a pointer to a function": (body("float (*f)(float);"), "K03", 2, 10, "a pointer to a function"),
    # pointers
    "a pointer as a parameter": ("void kernel(int i, int n, float *p) {}", "K04", 1, 33, "how far it goes"),
    "arithmetic of pointers": (body("float v = 1; float *p = &v; p = p + 1;"), "K04", 2, 31, "nothing is added to a pointer"),
    "an array with two dimensions as a pointer": (body("float m[2][2]; float *p = m;"), "K12", 2, 24, "2 dimensions, a pointer has one"),
    "an element by a star": (body("y[i] = *x;"), "K04", 2, 11, "no pointer"),
    "a pointer to a pointer": (body("float **p;"), "K04", 2, 10, "pointer to a pointer"),
    "a function that takes one": ("void f(float **p) {}\n" + body(""), "K04", 1, 15, "pointer to a pointer"),
    "an address as a number": (body("y[i] = (int)&i;"), "K04", 2, 16, "address"),
    "NULL is looked at": (body("float *p = NULL; y[i] = *p;"), "K04", 2, 28, "NULL"),
    "NULL as a number": (body("y[i] = NULL;"), "K04", 2, 10, "NULL"),
    "an array of pointers": (body("float *a[3];"), "K04", 2, 10, "array of pointers"),
    "two names for one variable": ("void f(float *a, float *b) { *a = *b; }\n" + body("float v = 1; f(&v, &v);"), "K04", 3, 23, "twice"),
    "a function that gives a pointer": ("float *f(void) { return NULL; }\n" + body("f();"), "K04", 1, 8, "gives a pointer"),
    "an input's address as an argument": ("void f(float *a) { *a = 1; }\n" + body("f(&x[i]);"), "K14", 3, 6, "`x` is const"),
    "pointers are compared": (
        body("float a; float b; float *p = &a; float *q = &b; if (p == q) y[i] = 1;"),
        "K04",
        2,
        55,
        "no value of its own",
    ),
    "a call of an expression": (body("y[i] = (*f)(1);"), "K04", 2, 12, "no name"),
    "an atomic of a value": (body("atomic_add(y[i], 1);"), "K04", 2, 14, "element of an array"),
    # globals
    "a global variable": ("int g;\n" + body(""), "K05", 1, 5, "global"),
    "a global table": ("const float c[2] = {1, 2};\n" + body(""), "K05", 1, 13, "global"),
    "static": (body("static int a = 1;"), "K05", 2, 14, "`static`"),
    "extern": (body("extern int a;"), "K05", 2, 14, "`extern`"),
    # recursion
    "a function calls itself": ("int f(int a) { return f(a - 1); }\n" + body("y[i] = f(3);"), "K06", 1, 23, "f → f"),
    "two call each other": (
        "int g(int a);\nint f(int a) { return g(a); }\nint g(int a) { return f(a); }\n" + body("y[i] = f(3);"),
        "K06",
        3,
        23,
        "f → g → f",
    ),
    "one that nobody calls": ("int f(int a) { return f(a - 1); }\n" + body(""), "K06", 1, 23, "calls itself"),
    "the kernel calls itself": (body("kernel(i, n, x, y);"), "K06", 2, 3, "calls itself"),
    # memory
    "malloc for a pointer": (body("float *p = malloc(4);"), "K07", 2, 14, "`malloc`"),
    "malloc with a cast": (body("float *p = (float *)malloc(4);"), "K07", 2, 23, "`malloc`"),
    "malloc for an array": (body("float p[3] = malloc(3);"), "K07", 2, 16, "`malloc`"),
    "malloc": (body("malloc(4);"), "K07", 2, 3, "`malloc`"),
    "free": (body("free(x);"), "K07", 2, 3, "`free` is for what was allocated"),
    # control
    "goto": (body("goto a; a: y[i] = 1;"), "K08", 2, 3, "goto"),
    "a label": (body("a: y[i] = 1;"), "K08", 2, 3, "goto"),
    "switch": (body("switch (i) { case 1: break; }"), "K08", 2, 3, "switch"),
    "case": (body("case 1: y[i] = 1;"), "K08", 2, 3, "switch"),
    "break outside of a loop": (body("break;"), "K08", 2, 3, "`break`"),
    "continue outside of a loop": (body("continue;"), "K08", 2, 3, "`continue`"),
    "after a return": (body("return; y[i] = 1;"), "K08", 2, 11, "never reached"),
    "after a break": (body("while (i) { break; y[i] = 1; }"), "K08", 2, 22, "never reached"),
    # what depends on more than its arguments
    "rand": (body("y[i] = rand();"), "K09", 2, 10, "`rand`"),
    "printf": (body('printf("a");'), "K09", 2, 3, "`printf`"),
    "memcpy": (body("memcpy(y, x, 4);"), "K09", 2, 3, "`memcpy`"),
    "time": (body("y[i] = time(NULL);"), "K09", 2, 10, "`time`"),
    # one change a statement
    "two assignments": (body("int a; int b; a = b = 1;"), "K10", 2, 17, "two assignments"),
    "an assignment as a value": (body("int a; y[i] = 1 + (a = 2);"), "K10", 2, 22, "assignment within"),
    "an assignment as a condition": (body("int a = 1; if (a = 2) y[i] = 1;"), "K10", 2, 18, "condition"),
    "++ within an expression": (body("int a = 0; y[a++] = 1;"), "K10", 2, 16, "changed within"),
    "a comma between statements": (body("y[i] = 1, y[i] = 2;"), "K10", 2, 3, "a comma between statements"),
    "a comma after a step": (body("int k = 0; k++, y[i] = k;"), "K10", 2, 14, "a comma between statements"),
    "a comma": (body("int a = (1, 2);"), "K10", 2, 12, "comma"),
    "a value for nothing": (body("i + 1;"), "K10", 2, 3, "nothing with it"),
    "a sum is assigned to": (body("x[i] + 1 = 3;"), "K10", 2, 3, "cannot be assigned"),
    # names
    "not declared": (body("y[i] = q;"), "K11", 2, 10, "`q` is not declared"),
    "declared twice": (body("int a; int a;"), "K11", 2, 14, "twice"),
    "a name of a parameter": (body("int i = 3;"), "K11", 2, 7, "`i` is declared twice"),
    "a name of an array": (body("float x = 3;"), "K11", 2, 9, "`x` is declared twice"),
    "a name of a function's parameter": ("int f(int a) { int a = 1; return a; }\n" + body(""), "K11", 1, 20, "`a` is declared twice"),
    "declared twice around a return": (body("int a = 1; if (i) return;\n  int a = 2;"), "K11", 3, 7, "first in line 2"),
    "a parameter's name after a return": (body("if (i) return;\n  int n = 2;"), "K11", 3, 7, "`n` is declared twice"),
    "two functions of a name": ("void f(void) {}\nvoid f(void) {}\n" + body(""), "K11", 2, 6, "twice"),
    "two parameters of a name": ("void kernel(int i, int i) {}", "K11", 1, 24, "twice"),
    "of a block that has ended": (body("{ int a = 1; } y[i] = a;"), "K11", 2, 25, "`a` is not declared"),
    "a constant of a variable": ("\n#define A i\n" + body("y[i] = A;"), "K11", 2, 1, "`i` is not declared"),
    "instances by an unknown name": ("\n\n#pragma laminar instances q\n" + body(""), "K11", 3, 1, "`q` is not declared"),
    # types that do not fit
    "too many indices": (body("y[i][1] = 1;"), "K12", 2, 3, "1 dimension"),
    "a whole array is assigned": (body("y = x;"), "K12", 2, 3, "array"),
    "an array as a number": (body("y[i] = x;"), "K12", 2, 10, "array"),
    "an index that is a float": (body("y[1.5] = 1;"), "K12", 2, 5, "index"),
    "% of floats": (body("y[i] = x[i] % 2;"), "K12", 2, 10, "`%`"),
    "~ of a float": (body("y[i] = ~x[i];"), "K12", 2, 11, "`~`"),
    "an index of a number": (body("y[i] = i[0];"), "K12", 2, 10, "not an array"),
    "an index of a pointer": (body("float v = 1; float *p = &v; y[i] = p[0];"), "K12", 2, 38, "not an array"),
    "a value of a function without one": ("void f(void) {}\n" + body("y[i] = f();"), "K12", 3, 10, "no value"),
    "too many arguments": (F + body("y[i] = f(1, 2);"), "K12", 3, 10, "takes 1 argument"),
    "too few arguments": (body("y[i] = sinf();"), "K12", 2, 10, "takes 1 argument"),
    "a function that gives an array": ("float f(float a)[3] { return a; }\n" + body(""), "K12", 1, 7, "gives an array"),
    "declared with other types": ("float f(int a);\n" + F + body(""), "K12", 2, 7, "other types than in line 1"),
    "a value is returned by none": ("void f(void) { return 1; }\n" + body("f();"), "K12", 1, 16, "returns one"),
    "nothing is returned": ("int f(void) { return; }\n" + body("f();"), "K12", 1, 15, "returns nothing"),
    "a number for an array": ("float f(float a[3]) { return a[0]; }\n" + body("y[i] = f(1);"), "K12", 3, 12, "is an array"),
    "an array of another size": ("float f(float a[3]) { return a[0]; }\n" + body("float q[2]; y[i] = f(q);"), "K12", 3, 24, "2 elements"),
    "an array of another type": ("float f(int a[3]) { return a[0]; }\n" + body("float q[3]; y[i] = f(q);"), "K12", 3, 24, "float[]"),
    "too many values": (body("int a[2] = {1, 2, 3};"), "K12", 2, 15, "3 values for 2"),
    "a list for a variable": (body("int a = {1};"), "K12", 2, 12, "list"),
    "a number for a list": (body("int a[2] = 1;"), "K12", 2, 14, "one value"),
    "values with places": (body("int a[2] = {[1] = 1};"), "K12", 2, 21, "places"),
    "values for shared memory": (body("shared int a[1] = {1};"), "K12", 2, 14, "shared"),
    "an atomic of a bool": ("void kernel(int i, int n, bool y[n]) { atomic_add(&y[i], 1); }", "K12", 1, 52, "bool"),
    "an atomic's value": (body("y[i] = atomic_add(&y[i], 1);"), "K12", 2, 10, "no value"),
    "a barrier with arguments": (body("barrier(1);"), "K12", 2, 3, "0 arguments"),
    "a barrier's value": (body("y[i] = barrier();"), "K12", 2, 10, "no value"),
    # sizes
    "a size of a variable": (body("int a[i];"), "K13", 2, 7, "not known"),
    "a size that is too large": (body("int a[100000 * 100000];"), "K13", 2, 9, "is 10,000,000,000, which does not fit the type int"),
    "a parameter's size that is too large": ("void kernel(int i, int n, int y[50000 * 50000]) {}", "K13", 1, 33, "is 2,500,000,000"),
    "a constant that is too large for a size": (
        "#define N (65537 * 65536)\n#define M (N + 1)\n" + body("int a[M];"),
        "K13",
        4,
        9,
        "4,295,032,832",
    ),
    "a size of zero": (body("int a[0];"), "K13", 2, 9, "size of 0"),
    "a size below zero": (body("int a[-1];"), "K13", 2, 10, "size of -1"),
    "no size": (body("int a[];"), "K13", 2, 7, "no size"),
    "a size that is a float": (body("int a[1.5];"), "K13", 2, 9, "whole number"),
    "a parameter without size": ("void kernel(int i, int n, float y[]) {}", "K13", 1, 33, "no size"),
    "a size that is promised": ("void kernel(int i, int n, float y[static 4]) {}", "K13", 1, 33, "`static` within the brackets"),
    "a size of *": ("void kernel(int i, int n, float y[*]) {}", "K13", 1, 33, "`[*]`"),
    "a size by a choice": ("void kernel(int i, int n, float y[n > 2 ? n : 2]) {}", "K13", 1, 35, "more than + - * / %"),
    "a size from memory": ("void kernel(int i, int n, const int m[2], float y[m[0]]) {}", "K13", 1, 51, "size of `y`"),
    # inputs
    "an input is written": (body("x[i] = 1;"), "K14", 2, 3, "`x` is const"),
    "an input is added to": (body("x[i] += 1;"), "K14", 2, 3, "`x` is const"),
    "the instance is written": (body("i = 1;"), "K14", 2, 3, "`i` is const"),
    "the count is written": (body("n++;"), "K14", 2, 3, "`n` is const"),
    "a constant is written": (body("const int a = 1; a = 2;"), "K14", 2, 20, "`a` is const"),
    "an input goes to a function that writes": (
        "void f(float a[3]) { a[0] = 1; }\nvoid kernel(int i, int n, const float x[3]) { f(x); }",
        "K14",
        2,
        49,
        "may write",
    ),
    "in and out": ("void kernel(int i, int n, in out float x[n]) {}", "K14", 1, 40, "two things"),
    "const and out": ("void kernel(int i, int n, out const float x[n]) {}", "K14", 1, 43, "two things"),
    "`in` is written": ("void kernel(int i, int n, in float x[n]) { x[i] = 1; }", "K14", 1, 44, "`x` is const"),
    "an atomic on an input": (body("atomic_add(&x[i], 1);"), "K14", 2, 15, "`x` is const"),
    # values
    "a constant without a value": (body("const int a;"), "K15", 2, 13, "no value"),
    # directives
    "a constant twice": ("#define A 1\n#define A 2\n" + body("y[i] = A;"), "K17", 2, 1, "`A` is defined twice; in line 1 as `1`"),
    "a setting twice": (
        "#pragma laminar contract on\n#pragma laminar contract off\n" + body(""),
        "K17",
        2,
        1,
        "said twice; first in line 1",
    ),
    "#if": ("#if 1\n" + body(""), "K17", 1, 1, "`#if 1`"),
    "#ifdef": ("  #ifdef A\n", "K17", 1, 3, "`#ifdef A`"),
    "#include of another file": ('#include "mine.h"\n', "K17", 1, 1, "mine.h"),
    "#include of what kernels do not have": ("#include <stdio.h>\n", "K17", 1, 1, "stdio.h"),
    "a macro": ("#define SQ(a) ((a) * (a))\n" + body(""), "K17", 1, 1, "macro"),
    "a constant without brackets": ("#define A 2 + 1\n" + body("y[i] = A * x[i];"), "K17", 1, 1, "no brackets around it"),
    "brackets around parts": ("#define A (2) + (1)\n" + body("y[i] = A * x[i];"), "K17", 1, 1, "no brackets around it"),
    "a constant of nothing": ("#define A\n", "K17", 1, 1, "nothing"),
    "a constant of itself": ("#define A B\n#define B A\n" + body("y[i] = A;"), "K17", 1, 1, "by itself"),
    "an unknown setting": ("#pragma laminar speed 3\n" + body(""), "K17", 1, 1, "`speed`"),
    "another pragma": ("#pragma omp parallel\n" + body(""), "K17", 1, 1, "omp"),
    "a pragma within a function": (HEAD + "#pragma unroll\n}\n", "K17", 2, 1, "unroll"),
    "half an instance": ("#pragma laminar instances 1.5\n" + body(""), "K17", 1, 1, "1.5"),
    "instances by no expression": ("#pragma laminar instances (\n" + body(""), "K17", 1, 1, "not an expression"),
    "neither on nor off": ("#pragma laminar contract maybe\n" + body(""), "K17", 1, 1, "maybe"),
    # functions
    "an unknown function": (body("y[i] = sine(1.0);"), "K18", 2, 10, "`sine`"),
    "an unknown atomic": (body("atomic_sub(&y[i], 1);"), "K18", 2, 3, "`atomic_sub`"),
    "OpenCL: an instance by a function": (body("int a = get_global_id(0);"), "K18", 2, 11, "get_global_id"),
    "asm": (body('asm("nop");'), "K18", 2, 3, "`asm`"),
    "CUDA: a barrier": (body("__syncthreads();"), "K18", 2, 3, "`__syncthreads`"),
    "CUDA: an instance by a variable": (body("y[threadIdx.x] = 1;"), "K11", 2, 5, "`threadIdx`"),
    "assert": (body("assert(i >= 0);"), "K09", 2, 3, "`assert`"),
    "setjmp": (body("setjmp(x);"), "K18", 2, 3, "`setjmp`"),
    # sizes of memory
    "a huge local array": (body("float a[100000];"), "K19", 2, 9, "400,000 bytes"),
    "a huge shared array": (body("shared float a[100000000];"), "K19", 2, 16, "400,000,000 bytes"),
    "functions that double without end": (
        "int f0(int a) { return a + 1; }\n"
        + "".join(f"int f{k}(int a) {{ return f{k - 1}(a) + f{k - 1}(a); }}\n" for k in range(1, 30))
        + body("y[i] = f29(1);"),
        "K19",
        5,
        32,
        "50000 statements",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_rule_is_named_with_its_place(name: str) -> None:
    text, rule, line, column, words = BAD[name]
    with pytest.raises(KernelError) as caught:
        read_kernel(text, "bad.c")
    error = caught.value
    assert (error.rule, error.at, words in error.what) == (rule, (line, column), True), error.message
    assert error.code == "L701" and error.exit_code == 2
    assert error.instead and error.hint == error.instead
    assert error.message.startswith(f"bad.c:{line}:{column}: {error.what} ({rule}: {RULES[rule]})\n")
    assert error.message.endswith("^")


def test_every_rule_has_a_case() -> None:
    """K16 is about what instances do, and told by the analysis; K20 about an adjoint (test_kernel_by_hand.py): tests of them are there."""
    assert {rule for _, rule, _, _, _ in BAD.values()} == set(RULES) - {"K16", "K20"}


def test_names_of_inner_blocks_hide_others() -> None:
    """And `static` and `inline` before a function are there for C compilers."""
    inner = "if (n > 3) { int i = 2; y[0] = i; } for (int n = 0; n < 2; n++) { int n = 3; y[1] = n; }"
    functions = f"static inline {F}static float g(float a);\nstatic float g(float a) {{ return f(a); }}\n"
    read_kernel(functions + body(f"y[i] = g(x[i]); {inner}"))


def test_lines_that_go_on() -> None:
    assert read_kernel(body("y[i] = \\\n  x[i];")).body[0].at == (2, 3)


def test_the_caret_stands_below_the_place() -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(HEAD + "\ty[i]\t= q + 1;\n}", "tab.c")
    _, line, caret = caught.value.message.split("\n")
    assert (line, caret) == ("  \ty[i]\t= q + 1;", "  \t    \t  ^")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (body("i = 1;"), "a variable of its own: `int k = i;`"),
        (body("x[i] = 1;"), "leave out the const in line 1, or write to another"),
        (body("float a[n];"), "a number, a #define, or an array that is a parameter of the kernel"),
        ("void f(float *p) { p[0] = 1; }\n" + body("float v; f(&v);"), "`*p` without an index"),
        (
            "const float w[2][2] = {{1}};\n" + body(""),
            "a parameter of the kernel: `const float w[2][2]`; or in the kernel itself: `const float w[2][2] = {…};`",
        ),
        (body("memcpy(y, x, 4);"), "a loop: `for (int k = 0; k < n; k++) to[k] = from[k];`"),
        (body("memset(y, 0, 4);"), "a loop: `for (int k = 0; k < n; k++) to[k] = 0;`; outputs start as zeros"),
        (body('printf("a");'), "leave it out; what is to be seen goes to an array that is an output"),
        ("#define A 2 + 1\n" + body("y[i] = A;"), "`#define A (2 + 1)`"),
    ],
)
def test_what_to_write_instead_can_be_written(text: str, instead: str) -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(text, "t.c")
    assert caught.value.instead == instead


@pytest.mark.parametrize("value", ["(2 + 1)", "((2) + (1))", "-1", "(int)2.5", "~1"])
def test_constants_that_stay_whole_beside_others(value: str) -> None:
    read_kernel(f"#define A {value}\n" + body("y[i] = A * x[i];"))


def test_what_c_allows_twice() -> None:
    """The same constant as before; commas between the parts of a for; numbers that wrap around where they are no size."""
    text = "#define A 1\n#define A 1\n#define BIG (65536 * 65536)\n"
    read_kernel(text + body("for (int a = 0, b = A; a < 3; a++, b--) y[i] = b + BIG;"))


@pytest.mark.parametrize("near", ["count = cuont", "count = conut"])
def test_the_nearest_name_is_proposed(near: str) -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(body(f"int count = 1; {near};"), "t.c")
    assert caught.value.instead == "`count`"


@pytest.mark.parametrize(
    "text",
    [
        body("y[i] = q;").replace("\n", "\r\n"),
        "\ufeff" + body("y[i] = q;"),
        "/* größer\n * ∀ */ " + body("y[i] = q;"),
        body("/* ∀ */ // ∃ q\n  y[i] = q;"),
        body("y[i] = q; /* \"never */ // 'ends"),
    ],
    ids=["crlf", "byte order mark", "comment before", "comment within", "quotes in comments"],
)
def test_positions_are_those_of_the_file(text: str) -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(text, "t.c")
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    where = re.search(r"= (q);", plain)
    assert where is not None
    line, column = plain.count("\n", 0, where.start(1)) + 1, where.start(1) - plain.rfind("\n", 0, where.start(1))
    assert (caught.value.rule, caught.value.at) == ("K11", (line, column))


def test_errors_as_json() -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(body("goto a;"), "t.c")
    assert caught.value.to_json() == {
        "rule": "K08",
        "file": "t.c",
        "line": 2,
        "column": 3,
        "what": "goto is not supported",
        "instead": "a loop with break, or a function with return",
    }


@pytest.mark.parametrize("cut", range(0, 100, 7))
def test_half_a_file_is_an_error_and_no_crash(cut: int) -> None:
    text = F + body("float v = f(x[i]); /* note */ if (v < 0.0f) { v = -v; } y[i] = v;")
    with pytest.raises(KernelError):
        read_kernel(text[: len(text) * cut // 100], "half.c")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("__syncthreads();", "`barrier()`"),
        ("barrier(CLK_LOCAL_MEM_FENCE);", "argument"),
        ("int a = get_global_id(0);", "the first parameter"),
        ("y[blockIdx.x * blockDim.x + threadIdx.x] = 1;", "the first parameter"),
        ("y[i] = gridDim.x;", "the second parameter"),
        ("atomicAdd(&y[0], 1.0f);", "`atomic_add`"),
    ],
)
def test_words_of_other_languages_have_their_counterpart(line: str, instead: str) -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel(body(line), "bad.c")
    assert instead in caught.value.instead
