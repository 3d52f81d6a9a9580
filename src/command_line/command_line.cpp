#include "command_line/command_line.hpp"

#include <cctype>
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
std::vector<std::string> names_of(const CLI::Option& each) {
    std::vector<std::string> names;
    for (const auto& [dashes, bare] : {std::pair("--", each.get_lnames()), std::pair("-", each.get_snames())}) {
        for (const std::string& name : bare) {
            names.push_back(dashes + name);
        }
    }
    return names;
}

std::string options_of(const CLI::App& app) {
    std::string words;
    for (const CLI::Option* const each : app.get_options()) {
        for (const std::string& name : names_of(*each)) {
            words += (words.empty() ? "" : " ") + name;
        }
    }
    return words;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string in_bash(const CLI::App& app) {
    const std::string name = app.get_name();
    std::string commands;
    std::string options;
    for (const CLI::App* const each : commands_of(app)) {
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

/// Quoted by apostrophes; `quote` and `slash` are what stands there for one.
std::string quoted(const std::string& text, const char* quote, const char* slash) {
    std::string made = "'";
    for (const char each : text) {
        made += each == '\'' ? quote : each == '\\' ? slash : std::string(1, each);
    }
    return made + "'";
}

std::string for_zsh(const std::string& text) { return quoted(text, "'\\''", "\\"); }
std::string for_fish(const std::string& text) { return quoted(text, "\\'", "\\\\"); }

std::string options_in_zsh(const CLI::App& app) {
    std::string list;
    for (const CLI::Option* const each : app.get_options()) {
        for (const std::string& name : names_of(*each)) {
            list += " " + for_zsh(name + ":" + each->get_description());
        }
    }
    return list;
}

/// As a file of $fpath, or where it is sourced behind compinit.
std::string in_zsh(const CLI::App& app) {
    const std::string name = app.get_name();
    std::string commands;
    std::string options;
    for (const CLI::App* const each : commands_of(app)) {
        commands += "            " + for_zsh(each->get_name() + ":" + each->get_description()) + "\n";
        options += "            " + each->get_name() + ") options=(" + options_in_zsh(*each) + " ) ;;\n";
    }
    return "#compdef " + name + "\n_" + name +
           "() {\n"
           "    local -a commands options\n"
           "    if [[ $PREFIX == -* ]]; then\n"
           "        case $words[2] in\n" +
           options + "            -*) options=(" + options_in_zsh(app) +
           " ) ;;\n"
           "        esac\n"
           "        _describe -o option options\n"
           "    elif (( CURRENT == 2 )); then\n"
           "        commands=(\n" +
           commands +
           "        )\n"
           "        _describe command commands\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
           "    _" +
           name + " \"$@\"\nelse\n    compdef _" + name + " " + name + "\nfi\n";
}

std::string options_in_fish(const CLI::App& app, const std::string& where) {
    std::string lines;
    for (const CLI::Option* const each : app.get_options()) {
        if (each->get_positional()) {
            continue;
        }
        lines += "complete -c " + where;
        for (const std::string& name : each->get_snames()) {
            lines += " -s " + name;
        }
        for (const std::string& name : each->get_lnames()) {
            lines += " -l " + name;
        }
        lines += (each->get_items_expected() != 0 ? " -r -d " : " -d ") + for_fish(each->get_description()) + "\n";
    }
    return lines;
}

std::string in_fish(const CLI::App& app) {
    const std::string name = app.get_name();
    const std::string first = name + " -n __fish_use_subcommand";
    std::string lines = "complete -c " + first + " -f\n" + options_in_fish(app, first);
    for (const CLI::App* const each : commands_of(app)) {
        lines += "complete -c " + first + " -a " + each->get_name() + " -d " + for_fish(each->get_description()) + "\n";
        lines += options_in_fish(*each, name + " -n '__fish_seen_subcommand_from " + each->get_name() + "'");
    }
    return lines;
}

}  // namespace

std::vector<std::string> command_line::known_shells() { return {"bash", "zsh", "fish"}; }

std::string command_line::completion(const std::string& shell) const {
    return shell == "zsh" ? in_zsh(*app_) : shell == "fish" ? in_fish(*app_) : in_bash(*app_);
}

namespace {

/// As roff prints it. A dash is one that can be copied.
std::string as_roff(const std::string& text) {
    std::string made;
    bool begins_line = true;
    for (const char each : text) {
        if (begins_line && (each == '.' || each == '\'')) {
            made += "\\&";
        }
        begins_line = each == '\n';
        made += each == '\\' ? "\\e" : each == '-' ? "\\-" : std::string(1, each);
    }
    return made;
}

/// "\fB\-o\fR, \fB\-\-output\fR \fITEXT\fR".
std::string term_of(const CLI::Option& each) {
    if (each.get_positional()) {
        return "\\fI" + as_roff(each.get_name()) + "\\fR";
    }
    std::string term;
    for (const auto& [dashes, names] : {std::pair("-", each.get_snames()), std::pair("--", each.get_lnames())}) {
        for (const std::string& name : names) {
            term += (term.empty() ? "\\fB" : ", \\fB") + as_roff(dashes + name) + "\\fR";
        }
    }
    return each.get_type_name().empty() || each.get_items_expected() == 0
               ? term
               : term + " \\fI" + as_roff(each.get_type_name()) + "\\fR";
}

std::string options_in_roff(const CLI::App& app) {
    std::string text;
    for (const CLI::Option* const each : app.get_options()) {
        if (each != app.get_help_ptr() && each->get_group() != "Internal") {
            const std::string& given = each->get_default_str();
            text += ".TP\n" + term_of(*each) + "\n" + as_roff(each->get_description()) +
                    (given.empty() ? "" : as_roff(" (" + given + ")")) + "\n";
        }
    }
    return text;
}

/// Lines of a text that is broken for a terminal.
std::string footer_in_roff(const CLI::App& app) {
    return app.get_footer().empty() ? "" : ".PP\n" + as_roff(app.get_footer()) + "\n";
}

std::string command_in_roff(const std::string& program, const CLI::App& app) {
    std::string text = ".SS " + program + " " + app.get_name();
    for (const CLI::Option* const each : app.get_options()) {
        if (each->get_positional()) {
            text += " " + as_roff(each->get_name()) + (each->get_items_expected_max() > 1 ? "..." : "");
        }
    }
    text += "\n" + as_roff(app.get_description()) + ".\n" + options_in_roff(app);
    // A command without a footer has that of the program.
    return app.get_footer() == app.get_parent()->get_footer() ? text : text + footer_in_roff(app);
}

}  // namespace

std::string command_line::manual(const std::string& purpose) const {
    const CLI::App& app = *app_;
    std::string title = app.get_name();
    for (char& letter : title) {
        letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
    std::string text = ".TH " + title + " 1 \"\" \"Holdfast\" \"User Commands\"\n.SH NAME\n" + as_roff(app.get_name()) +
                       " \\- " + as_roff(purpose) + "\n.SH SYNOPSIS\n.B " + as_roff(app.get_name()) +
                       "\n.I COMMAND\n[\\fIOPTIONS\\fR] \\fIHEAP\\fR\n.SH DESCRIPTION\n" +
                       as_roff(app.get_description()) + "\n" + options_in_roff(app) + ".SH COMMANDS\n";
    for (const CLI::App* const each : commands_of(app)) {
        text += command_in_roff(as_roff(app.get_name()), *each);
    }
    return text + ".SH NOTES" + footer_in_roff(app).substr(3);
}

}  // namespace holdfast_programs
