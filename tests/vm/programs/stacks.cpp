// A C++ program whose stacks are known: the till rings, which calls open, which calls leaf, which calls getpriority.
#include <cstdlib>

namespace shop {
struct Leaf {
  __attribute__((noinline)) static long call(int number) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(140), "D"(0), "S"(0) : "rcx", "r11", "memory");
    return answer + number;
  }
};
template <typename T> __attribute__((noinline)) long open(T number) {
  volatile long kept = Leaf::call(static_cast<int>(number));
  return kept + 1;
}
class Till {
  long total = 0;

public:
  __attribute__((noinline)) void ring(int many) {
    for (int i = 0; i < many; i++)
      total += open<long>(i);
    __asm__ volatile("" ::: "memory");
  }
};
} // namespace shop

int main(int count, char **words) {
  shop::Till till;
  till.ring(count > 2 ? std::atoi(words[2]) : 1);
  __asm__ volatile("" ::: "memory");
  return 0;
}
