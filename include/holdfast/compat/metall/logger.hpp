// Versions and messages of holdfast::compat::metall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <holdfast/detail/needs_cxx20.hpp>

/// Of Metall's interface: major * 100,000 + minor * 100 + patch.
#ifndef METALL_VERSION
#define METALL_VERSION 2800
#endif

// A program that defines METALL_LOGGER_EXTERN_C before this header has a metall_log() of its own.
enum metall_log_level {
    metall_critical = 5,
    metall_error = 4,
    metall_warning = 3,
    metall_info = 2,
    metall_debug = 1,
    metall_verbose = 0,
};
#ifdef METALL_LOGGER_EXTERN_C
extern "C" void metall_log(metall_log_level level, const char* file, std::size_t line, const char* message);
#endif

namespace holdfast::compat::metall {

using version_type = std::uint32_t;
inline std::string to_version_string(version_type version) {
    return std::to_string(version / 100'000) + "." + std::to_string(version / 100 % 1000) + "." +
           std::to_string(version % 100);
}

/// For functions that do not throw. Thread-safe, except the functions that set something. abort_on_critical_error() has
/// no effect.
class logger {
public:
    enum struct level {
        critical = metall_critical,
        error = metall_error,
        warning = metall_warning,
        info = metall_info,
        debug = metall_debug,
        verbose = metall_verbose,
    };
    struct level_filter {
        static const level_filter critical, error, warning, info, debug, verbose, silent;
        bool should_log(level message) const noexcept { return least.has_value() && message >= *least; }
        std::optional<level> least;
    };

    logger() = delete;
    static void out(level severity, const char* file, int line, const char* message) noexcept {
#ifdef METALL_LOGGER_EXTERN_C
        metall_log(static_cast<metall_log_level>(severity), file, static_cast<std::size_t>(line), message);
#else
        if (log_level().should_log(severity)) {
            if (line == 0) {
                std::fprintf(stderr, "%s: %s\n", file, message);
            } else {
                std::fprintf(stderr, "%s at line %d --- %s\n", file, line, message);
            }
        }
#endif
    }
    static level_filter log_level() noexcept { return shown(); }
    static void set_log_level(level_filter least) noexcept { shown() = least; }
    static void set_log_level(level least) noexcept { shown() = {least}; }
    static bool abort_on_critical_error() noexcept { return aborts(); }
    static void abort_on_critical_error(bool enable) noexcept { aborts() = enable; }

private:
    static level_filter& shown() noexcept {
        static level_filter least{level::error};
        return least;
    }
    static bool& aborts() noexcept {
        static bool enabled = false;
        return enabled;
    }
};
inline const logger::level_filter logger::level_filter::critical{logger::level::critical};
inline const logger::level_filter logger::level_filter::error{logger::level::error};
inline const logger::level_filter logger::level_filter::warning{logger::level::warning};
inline const logger::level_filter logger::level_filter::info{logger::level::info};
inline const logger::level_filter logger::level_filter::debug{logger::level::debug};
inline const logger::level_filter logger::level_filter::verbose{logger::level::verbose};
inline const logger::level_filter logger::level_filter::silent{std::nullopt};

namespace detail {

/// An exception of Holdfast becomes a message, and the result `otherwise`.
template <class Result, class Call>
Result or_else(Result otherwise, Call&& call) noexcept {
    try {
        return call();
    } catch (const std::exception& failure) {
        logger::out(logger::level::error, "holdfast", 0, failure.what());
    }
    return otherwise;
}

}  // namespace detail
}  // namespace holdfast::compat::metall
