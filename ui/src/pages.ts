import "./config.js";
import "./files.js";
import "./logs.js";
import "./prompt.js";
import "./sessions.js";
import "./system.js";
