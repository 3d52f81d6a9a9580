#include "command_line/command_line.hpp"

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace holdfast_programs {

option option::required() const {
    declared_->required();
    return *this;
}

option option::show_default() const {
    declared_->capture_default_str();
    return *this;
}

option option::range(int least, int greatest) const {
    declared_->check(CLI::Range(least, greatest));
    return *this;
}

option option::range(unsigned least, unsigned greatest) const {
    declared_->check(CLI::Range(least, greatest));
    return *this;
}

option option::range(std::uint64_t least, std::uint64_t greatest) const {
    declared_->check(CLI::Range(least, greatest));
    return *this;
}

option option::range(double least, double greatest) const {
    declared_->check(CLI::Range(least, greatest));
    return *this;
}

option option::positive() const {
    declared_->check(CLI::PositiveNumber);
    return *this;
}

option option::one_of(std::vector<std::string> allowed) const {
    declared_->check(CLI::IsMember(std::move(allowed)));
    return *this;
}

option option::size(kilobyte kilo) const {
    declared_->transform(CLI::AsSizeValue(kilo == kilobyte::of_1000));
    return *this;
}

option option::delimiter(char separator) const {
    declared_->delimiter(separator);
    return *this;
}

option option::needs(const option& other) const {
    declared_->needs(other.declared_);
    return *this;
}

option option::excludes(const option& other) const {
    declared_->excludes(other.declared_);
    return *this;
}

option option::internal() const {
    declared_->group("Internal");
    return *this;
}

option command::add_option(const std::string& names, std::string& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, std::filesystem::path& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, unsigned& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, std::uint64_t& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, double& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, std::vector<std::string>& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, std::vector<unsigned>& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_option(const std::string& names, std::vector<std::uint64_t>& value, const std::string& text) const {
    return option(*app_->add_option(names, value, text));
}

option command::add_flag(const std::string& names, bool& value, const std::string& text) const {
    return option(*app_->add_flag(names, value, text));
}

option command::find_option(const std::string& name) const { return option(*app_->get_option(name)); }

void command::footer(const std::string& text) const { app_->footer(text); }

bool command::parsed() const { return app_->parsed(); }

command_line::command_line(const std::string& summary, const std::string& name)
    : command_line(std::make_unique<CLI::App>(summary, name)) {}

command_line::command_line(std::unique_ptr<CLI::App> owned) noexcept : command(*owned), owned_(std::move(owned)) {}

command_line::~command_line() = default;

command command_line::add_command(const std::string& name, const std::string& summary) {
    return command(*app_->add_subcommand(name, summary));
}

void command_line::require_command() { app_->require_subcommand(1); }

void command_line::version_flag(const std::string& name, const std::string& version) {
    app_->set_version_flag(name, version);
}

std::optional<int> command_line::parse(int argc, const char* const* argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::RequiredError& what) {
        // For an unknown command it only says that none was given.
        const std::vector<std::string> unknown = app_->remaining();
        return app_->get_subcommands().empty() && !unknown.empty() ? app_->exit(CLI::ExtrasError(unknown))
                                                                   : app_->exit(what);
    } catch (const CLI::ParseError& what) {
        return app_->exit(what);
    }
    return std::nullopt;
}

namespace {

/// All names, with their dashes.
std::string options_of(const CLI::App& app) {
    std::string words;
    for (const CLI::Option* const each : app.get_options()) {
        for (const std::string& name : each->get_lnames()) {
            words += (words.empty() ? "--" : " --") + name;
        }
        for (const std::string& name : each->get_snames()) {
            words += (words.empty() ? "-" : " -") + name;
        }
    }
    return words;
}

}  // namespace

std::string command_line::completion() const {
    const std::string name = app_->get_name();
    const CLI::App& app = *app_;
    std::string commands;
    std::string options;
    for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; })) {
        commands += each->get_name() + " ";
        options += "        " + each->get_name() + ") words=\"" + options_of(*each) + "\" ;;\n";
    }
    return "_" + name +
           "() {\n"
           "    local words=\"\"\n"
           "    case \"${COMP_WORDS[1]}\" in\n" +
           options +
           "    esac\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"" +
           commands + options_of(app) +
           "\" -- \"$2\"))\n"
           "    elif [ \"${2:0:1}\" = - ]; then\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$2\"))\n"
           "    fi\n"
           "}\n"
           "complete -o default -F _" +
           name + " " + name + "\n";
}

}  // namespace holdfast_programs
