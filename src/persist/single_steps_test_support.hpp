// Memory shows neither write-backs nor fences; single steps do.
#pragma once

#if defined(__x86_64__)

#include <signal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

namespace holdfast::persist {

enum class cache_instruction : std::uint8_t { clwb, clflushopt, clflush, sfence };

struct executed_instruction {
    cache_instruction what;
    std::uintptr_t line;  ///< 0 for a fence
    bool operator==(const executed_instruction&) const = default;
};

namespace single_steps {

inline constexpr std::size_t most = 4096;
inline std::array<executed_instruction, most> executed;
inline std::size_t count = 0;

/// By the register numbers of the instruction encoding.
inline constexpr std::array<int, 16> general_registers{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                       REG_R12, REG_R13, REG_R14, REG_R15};

inline std::optional<executed_instruction> decode(const unsigned char* code, const gregset_t& registers) {
    const bool wide = *code == 0x66;
    code += wide ? 1 : 0;
    unsigned rex = 0;
    if ((*code & 0xf0U) == 0x40) {
        rex = *code++;
    }
    if (code[0] != 0x0f || code[1] != 0xae) {
        return std::nullopt;
    }
    const unsigned modrm = code[2];
    const unsigned mode = modrm >> 6U;
    const unsigned operation = modrm >> 3U & 7U;
    if (mode == 3) {
        return operation == 7 ? std::optional(executed_instruction{cache_instruction::sfence, 0}) : std::nullopt;
    }
    if (operation != 7 && !(operation == 6 && wide)) {
        return std::nullopt;
    }
    const auto value = [&](unsigned number) {
        return static_cast<std::uintptr_t>(registers[general_registers[number]]);
    };
    const unsigned char* rest = code + 3;
    std::uintptr_t address = 0;
    if ((modrm & 7U) == 4) {
        const unsigned sib = *rest++;
        const unsigned index = (sib >> 3U & 7U) | (rex & 2U) << 2U;
        address = value((sib & 7U) | (rex & 1U) << 3U) + (index == 4 ? 0 : value(index) << (sib >> 6U));
    } else {
        address = value((modrm & 7U) | (rex & 1U) << 3U);
    }
    if (mode == 1) {
        address += static_cast<std::uintptr_t>(static_cast<std::intptr_t>(static_cast<signed char>(*rest)));
    } else if (mode == 2) {
        std::int32_t far = 0;
        std::memcpy(&far, rest, sizeof far);
        address += static_cast<std::uintptr_t>(static_cast<std::intptr_t>(far));
    }
    constexpr std::uintptr_t line = 64;
    const auto what = operation == 6 ? cache_instruction::clwb
                      : wide         ? cache_instruction::clflushopt
                                     : cache_instruction::clflush;
    return executed_instruction{what, address / line * line};
}

inline void note(int /*signal*/, siginfo_t* /*what*/, void* context) {
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
    if (const auto found = decode(code, registers); found && count < most) {
        executed[count++] = *found;
    }
}

inline constexpr unsigned long trap_flag = 0x100;

inline void set_trap_flag(bool wanted) {
    unsigned long flags = __builtin_ia32_readeflags_u64();
    flags = wanted ? flags | trap_flag : flags & ~trap_flag;
    __builtin_ia32_writeeflags_u64(flags);
}

}  // namespace single_steps

/// Does not work under ThreadSanitizer, which delays signals.
[[nodiscard]] inline std::vector<executed_instruction> executed_by(const std::function<void()>& code) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_sigaction = single_steps::note;
    action.sa_flags = SA_SIGINFO;
    if (::sigaction(SIGTRAP, &action, &before) != 0) {
        throw std::runtime_error("sigaction");
    }
    single_steps::count = 0;
    single_steps::set_trap_flag(true);
    code();
    single_steps::set_trap_flag(false);
    ::sigaction(SIGTRAP, &before, nullptr);
    const auto begin = single_steps::executed.begin();
    return {begin, begin + static_cast<std::ptrdiff_t>(single_steps::count)};
}

}  // namespace holdfast::persist

#endif
