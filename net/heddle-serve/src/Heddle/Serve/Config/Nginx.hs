-- |
-- Module      : Heddle.Serve.Config.Nginx
-- Description : Configurations of nginx
-- Stability   : internal, exempt from the version policy
--
-- Servers become hosts, locations routes or rules by path. Regular expressions are translated if they are endings of names; other
-- ones, and directives without a counterpart, are listed.
--
-- Cost: O(size).
-- Owner: values.
module Heddle.Serve.Config.Nginx
  ( importNginx,
    isNginx,
    Directive (..),
    parseNginx,
  )
where

import Data.Char (isAlphaNum, isDigit, isSpace, toLower)
import Data.List (intercalate, isInfixOf, isPrefixOf, isSuffixOf, nub, partition, stripPrefix)
import Data.Maybe (fromMaybe, isJust, listToMaybe)
import Heddle.Serve.Config.Import
import Heddle.Serve.Config.NginxProxy
import Heddle.Serve.Config.NginxSyntax
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Yaml
import Text.Read (readMaybe)

-- | Translate a file.
importNginx :: FilePath -> String -> Either Problem Imported
importNginx file text = translated <$> parseNginx file text
  where
    translated directives =
      let Translation keys problems = if any isInHttp directives then httpOf file directives else foldMap (topOf file) directives
       in Imported (YamlMap (merged keys)) problems
    -- A file that the http block includes, such as those of sites-enabled.
    isInHttp d = case directiveWords d of
      name : _ -> name `elem` ["server", "upstream"]
      [] -> False

-- What needs no key, whatever it says: it is about how nginx works, and no client sees a difference.
needless :: [String]
needless = ["worker_rlimit_nofile", "sendfile", "tcp_nopush", "tcp_nodelay", "server_tokens", "types_hash_max_size", "types_hash_bucket_size", "server_names_hash_bucket_size", "gzip_vary", "gzip_proxied", "gzip_http_version", "gzip_buffers", "gzip_disable", "gzip_comp_level", "keepalive_requests", "reset_timedout_connection", "proxy_http_version", "proxy_buffering", "fastcgi_index", "fastcgi_split_path_info", "ssl_session_cache", "ssl_session_timeout", "ssl_session_tickets", "ssl_prefer_server_ciphers", "http2", "log_not_found", "multi_accept", "use", "open_file_cache", "open_file_cache_valid", "open_file_cache_min_uses", "open_file_cache_errors", "limit_req_zone", "log_format", "daemon", "master_process"]

-- Whether a directive says what the server does anyway; with another value it would be lost.
isNeedless :: Directive -> Bool
isNeedless d = case directiveWords d of
  "proxy_set_header" : _ -> isStandardHeader d
  "ssl_protocols" : versions -> all (`elem` ["TLSv1.2", "TLSv1.3"]) versions
  ["auth_basic", realm] -> realm /= "off"
  [name, value] | Just same <- lookup name usual -> map toLower value `elem` same
  name : _ -> name `elem` needless
  [] -> True
  where
    usual =
      [ ("default_type", ["application/octet-stream"]),
        ("charset", ["utf-8"]),
        ("proxy_redirect", ["off", "default"]),
        ("etag", ["on"]),
        ("if_modified_since", ["exact", "before"]),
        ("limit_req_status", ["429"]),
        ("real_ip_header", ["x-forwarded-for"])
      ]

-- Every directive without a block that is known.
understood :: [String]
understood = needless ++ ["user", "worker_processes", "worker_connections", "pid", "error_log", "access_log", "include", "listen", "server_name", "return", "try_files", "root", "index", "alias", "autoindex", "keepalive_timeout", "client_max_body_size", "client_header_timeout", "client_body_timeout", "send_timeout", "proxy_pass", "proxy_read_timeout", "proxy_set_header", "proxy_redirect", "fastcgi_pass", "fastcgi_param", "scgi_pass", "gzip", "gzip_static", "gzip_types", "error_page", "add_header", "expires", "ssl_certificate", "ssl_certificate_key", "ssl_protocols", "ssl_ciphers", "ssl_stapling_file", "ssl_client_certificate", "ssl_verify_client", "auth_basic", "auth_basic_user_file", "allow", "deny", "set_real_ip_from", "real_ip_header", "disable_symlinks", "limit_req", "default_type", "charset", "etag", "if_modified_since", "rewrite", "set"]

-- | Test whether a text has a directive as nginx writes it. Other servers' files have braces, too.
isNginx :: String -> Bool
isNginx text = or [if name `elem` blocks then any (`elem` "{;") line else name `elem` understood && ';' `elem` drop (length line - 1) line | line <- map (trimmed . takeWhile (/= '#')) (lines text), name : _ <- [words line]]
  where
    blocks = ["http", "events", "server", "upstream", "location", "types", "stream"]
    trimmed = dropWhile isSpace . reverse . dropWhile isSpace . reverse

topOf :: FilePath -> Directive -> Translation
topOf file directive@(Directive line names inner) = case names of
  "http" : _ -> httpOf file inner
  "events" : _ -> foldMap event inner
  ["user", user] -> says "user" (YamlText user)
  ["user", user, group] -> says "user" (YamlText (user ++ ":" ++ group))
  ["worker_processes", n] -> if all isDigit n then says "cores" (YamlText n) else none
  ["pid", path] -> says "pid-file" (YamlPath path)
  "error_log" : path : level -> errorLog path level
  _ | isNeedless directive -> none
  ["include", path] -> noted file line ("not translated: include " ++ path ++ "; translate that file itself")
  _ -> untranslated file directive
  where
    event d = case directiveWords d of
      ["worker_connections", n] -> says "max-connections" (YamlText n)
      _ | isNeedless d -> none
      _ -> untranslated file d

errorLog :: FilePath -> [String] -> Translation
errorLog path level = says "error-log" (YamlPath path) <> foldMap (\l -> foldMap (says "error-level" . YamlText) (lookup l levels)) level
  where
    levels = [("emerg", "error"), ("alert", "error"), ("crit", "error"), ("error", "error"), ("warn", "warn"), ("notice", "notice"), ("info", "info"), ("debug", "info")]

httpOf :: FilePath -> [Directive] -> Translation
httpOf file directives = foldMap general [d | d <- others, take 1 (directiveWords d) /= ["root"]] <> whole
  where
    httpRoot = listToMaybe [path | Directive _ ["root", path] _ <- others]
    (servers, others) = partition ((== ["server"]) . take 1 . directiveWords) directives
    around =
      Around
        { aroundFile = file,
          aroundUpstreams = [(name, directiveBlock d) | d <- others, ["upstream", name] <- [directiveWords d]],
          aroundRates = [(zone, rate) | d <- others, "limit_req_zone" : arguments <- [directiveWords d], Just zone <- [listToMaybe [takeWhile (/= ':') z | Just z <- map (stripPrefix "zone=") arguments]], Just rate <- [valueOf "rate=" arguments]],
          aroundHeaders = headersIn [] others,
          aroundNamesClient = any ((== ["real_ip_header"]) . take 1 . directiveWords) (others ++ concatMap directiveBlock servers),
          aroundFormats = [(name, concat parts) | d <- others, "log_format" : name : parts <- [directiveWords d]],
          aroundVerifies = or [how `elem` ["on", "optional"] | d <- others ++ concatMap directiveBlock servers, ["ssl_verify_client", how] <- [directiveWords d]]
        }
    general d = case directiveWords d of
      "upstream" : _ -> none
      "types" : _ -> says "mime" (YamlMap [(extension, YamlText media) | Directive _ (media : extensions) _ <- directiveBlock d, extension <- extensions])
      ["include", path] | "mime.types" `isSuffixOf` path -> none
      ["include", path] -> noted file (directiveLine d) ("not translated: include " ++ path ++ "; translate these files themselves, and include the results")
      _ -> commonOf around d
    -- A server that only redirects to HTTPS what another one serves there is that one's redirect-https.
    (redirecting, serving) = partition redirectsHttps servers
    secureNames = concat [namesOf s | s <- serving, any isSecure (listensOf s)]
    covered s = not (null (namesOf s)) && all (`elem` secureNames) (namesOf s)
    coveredNames = concatMap namesOf (filter covered redirecting)
    kept = serving ++ filter (not . covered) redirecting
    -- nginx answers unknown names by the default server, or else the first.
    ordered = let (defaults, rest) = partition (any ("default_server" `elem`) . listensOf) [s | s <- servers, s `elem` kept] in defaults ++ rest
    whole
      | null servers = none
      | otherwise =
        says "listen" (texts (nub (concatMap (map listenText . listensOf) servers)))
          <> foldMap fst hosts
          <> says "unknown-host" (YamlText "first")
          <> says "hosts" (YamlList [YamlMap keys | (_, keys) <- hosts])
    hosts = zipWith split ordered (zipWith (hostOf around coveredNames) (True : repeat False) ordered)
    -- What is for all hosts here is lifted.
    split server (Translation given problems) =
      let (lifted, own) = partition ((`elem` ofAllHosts) . fst) given
          keys = merged (own ++ [("root", YamlPath path) | "root" `notElem` map fst own, Just path <- [httpRoot]])
       in (Translation lifted problems <> foldMap (\(key, _) -> noted file (directiveLine server) ("'" ++ key ++ "' of this server holds for all hosts now")) lifted, keys)
    ofAllHosts = ["access-log", "log-format", "error-log", "error-level", "idle", "time-outs", "hsts", "trusted-proxy", "tls-client-ca", "tls-client-optional", "tls-minimum"]

-- Without expressions and wildcards at the end, which a host has not.
namesOf :: Directive -> [String]
namesOf server = nub (concatMap expanded (filter (not . isPattern) (givenNames server)))
  where
    expanded name = case name of
      '.' : domain -> [domain, "*." ++ domain]
      _ -> [name]

givenNames :: Directive -> [String]
givenNames server = concat [filter (`notElem` ["_", ""]) names | Directive _ ("server_name" : names) _ <- directiveBlock server]

isPattern :: String -> Bool
isPattern name = "~" `isPrefixOf` name || ".*" `isSuffixOf` name

listensOf :: Directive -> [[String]]
listensOf server = case [arguments | Directive _ ("listen" : arguments) _ <- directiveBlock server] of
  [] -> [["80"]]
  given -> given

isSecure :: [String] -> Bool
isSecure = elem "ssl"

listenText :: [String] -> String
listenText arguments = (if isSecure arguments then "https://" else "") ++ place
  where
    place = case arguments of
      address : _
        | all isDigit address -> ':' : address
        | Just port <- stripPrefix "[::]:" address -> ':' : port
        | Just port <- stripPrefix "*:" address -> ':' : port
        | Just port <- stripPrefix "0.0.0.0:" address -> ':' : port
        | "unix:" `isPrefixOf` address || ':' `elem` address -> address
        | otherwise -> address ++ (if isSecure arguments then ":443" else ":80")
      [] -> ":80"

redirectsHttps :: Directive -> Bool
redirectsHttps server = not (any isSecure (listensOf server)) && all plain rest && any redirection rest
  where
    rest = [d | d <- directiveBlock server, take 1 (directiveWords d) `notElem` [["listen"], ["server_name"], ["root"], ["access_log"], ["error_log"], ["server_tokens"]]]
    plain d =
      redirection d || case directiveWords d of
        ["location", "/"] -> all redirection (directiveBlock d)
        _ -> False
    redirection d = case directiveWords d of
      ["return", code, target] -> code `elem` ["301", "302", "307", "308"] && any (`isPrefixOf` target) ["https://$host$request_uri", "https://$server_name$request_uri", "https://$http_host$request_uri"]
      ["location", "/"] -> not (null (directiveBlock d)) && all redirection (directiveBlock d)
      _ -> False

hostOf :: Around -> [String] -> Bool -> Directive -> Translation
hostOf outside covered first server =
  named <> (if any (`elem` covered) names then says "redirect-https" (YamlText "yes") else none) <> foldMap one (joinedCache (directiveBlock server))
  where
    around = outside {aroundHeaders = headersIn (aroundHeaders outside) (directiveBlock server)}
    file = aroundFile around
    names = namesOf server
    -- A server without names answers only as the default one.
    named
      | not (null names) = says "names" (texts names)
      | first = none
      | otherwise = noted file (directiveLine server) "this server has no name and is not the default one; give it names"
    root = listToMaybe [path | Directive _ ["root", path] _ <- directiveBlock server ++ concat [directiveBlock d | d <- directiveBlock server, directiveWords d == ["location", "/"]]]
    fallbacks = [(name, directiveBlock d) | d <- directiveBlock server, ["location", name@('@' : _)] <- [directiveWords d]]
    one d = case directiveWords d of
      "listen" : _ -> none
      "server_name" : given -> foldMap (\name -> left file (directiveLine d) ("server_name " ++ name)) (filter isPattern given)
      ["location", '@' : _] -> none
      "location" : pattern' -> locationOf around root fallbacks d pattern'
      "return" : arguments -> returned file d "/" arguments
      "try_files" : paths -> says "routes" (YamlMap [("/", YamlMap (tried paths))])
      _ -> commonOf around d

-- Paths that are tried, and what comes after them.
tried :: [String] -> [(String, Yaml)]
tried paths =
  ("try-files", texts (init paths)) : case last paths of
    '=' : status -> [("else", YamlText status)]
    target -> [("else", YamlText target)]

returned :: FilePath -> Directive -> String -> [String] -> Translation
returned file d prefix arguments = case arguments of
  [code, target]
    | code `elem` ["301", "302", "303", "307", "308"] -> route [("redirect", YamlText (asTarget target)), ("status", YamlText code)]
    | isStatus code -> route [("respond", YamlText code), ("body", YamlText target)]
  [code]
    | code == "444" -> noted file (directiveLine d) "return 444 (a closed connection) became a reply with 403" <> route [("respond", YamlText "403")]
    | isStatus code -> route [("respond", YamlText code)]
    | otherwise -> route [("redirect", YamlText (asTarget code)), ("status", YamlText "302")]
  _ -> untranslated file d
  where
    route kind = says "routes" (YamlMap [(prefix, YamlMap kind)])
    isStatus code = maybe False (\n -> n >= 200 && n <= (599 :: Int)) (readMaybe code)

-- The server's name is the host.
asTarget :: String -> String
asTarget text = case text of
  _ | Just rest <- stripPrefix "$server_name" text -> "$host" ++ asTarget rest
  c : rest -> c : asTarget rest
  [] -> []

locationOf :: Around -> Maybe FilePath -> [(String, [Directive])] -> Directive -> [String] -> Translation
locationOf outside root fallbacks d pattern' = case pattern' of
  [prefix] | "/" `isPrefixOf` prefix -> at (bare prefix)
  ["^~", prefix] -> at (bare prefix)
  -- Rules by path can be for one path; a route takes what is below it, too.
  ["=", path] ->
    let translation@(Translation keys _) = within path path
     in (if any ((== "routes") . fst) keys then noted file (directiveLine d) ("location = " ++ path ++ " became a route for " ++ path ++ " and what is below it") else none) <> translation
  [operator, expression]
    | operator `elem` ["~", "~*"], Just endings <- endingsOf expression, forwards || refuses || restricted -> foldMap (at . ("/*." ++)) endings
    | operator `elem` ["~", "~*"], Just endings <- endingsOf expression -> foldMap (ruleFor (if length endings == 1 then "*." ++ concat endings else "*.{" ++ intercalate "," endings ++ "}")) (directiveBlock d)
    | operator `elem` ["~", "~*"], expression `elem` ["/\\.", "/\\.ht", "^/\\.", "\\.ht", "/\\.(?!well-known).*"] -> none
  _ -> untranslated file d
  where
    around = outside {aroundHeaders = headersIn (aroundHeaders outside) (directiveBlock d)}
    file = aroundFile around
    inner = joinedCache (directiveBlock d)
    bare prefix = if length prefix > 1 && "/" `isSuffixOf` prefix then init prefix else prefix
    forwards = or [take 1 (directiveWords i) `elem` [["fastcgi_pass"], ["proxy_pass"], ["scgi_pass"]] | i <- inner]
    programs = or [take 1 (directiveWords i) `elem` [["fastcgi_pass"], ["scgi_pass"]] | i <- inner]
    refuses = or [i == ["deny", "all"] || take 1 i == ["return"] | i <- map directiveWords inner]
    -- Who may ask is a rule of whole hosts. What cannot be said of a part must not be open to everybody.
    restricted = or [take 1 i `elem` map pure ["auth_basic_user_file", "auth_request", "allow", "internal"] || take 1 i == ["deny"] && i /= ["deny", "all"] | i <- map directiveWords inner]
    at prefix = within (prefix ++ "/**") prefix
    within glob prefix
      | restricted && prefix /= "/" = noted file (directiveLine d) ("this location has rules about who may ask, which a route has not; " ++ prefix ++ " answers with 403 until you have decided") <> route prefix [("respond", YamlText "403")]
      | otherwise = foldMap (inside glob prefix) inner
    route prefix kind = says "routes" (YamlMap [(prefix, YamlMap kind)])
    inside glob prefix i = case directiveWords i of
      ["proxy_pass", url] -> proxied around i prefix url
      ["fastcgi_pass", place] -> route prefix [("fastcgi", YamlText (serverText place))]
      ["scgi_pass", place] -> route prefix [("scgi", YamlText (serverText place))]
      ["alias", path] | not forwards -> route prefix [("files", YamlPath (bare path))]
      ["root", path]
        | prefix == "/" -> says "root" (YamlPath path)
        -- A program would get the files of another directory.
        | forwards -> if programs && root /= Just path then untranslated file i else none
        | otherwise -> route prefix [("files", YamlPath (bare path ++ prefix))]
      "return" : arguments -> returned file i prefix arguments
      "try_files" : paths
        | forwards -> none
        | Just body <- lookup (last paths) fallbacks, Just [url] <- listToMaybe [drop 1 (directiveWords b) | b <- body, take 1 (directiveWords b) == ["proxy_pass"]] -> noted file (directiveLine i) ("the fallback " ++ last paths ++ " became the route " ++ '/' : drop 1 (last paths) ++ ", which clients can ask for, too") <> fallbackRoute i prefix paths url body <> foldMap (\b -> if take 1 (directiveWords b) == ["proxy_pass"] || isNeedless b then none else untranslated file b) body
        | "@" `isPrefixOf` last paths -> untranslated file i
        | isJust root -> route prefix (tried paths)
        | otherwise -> untranslated file i
      ["client_max_body_size", size] | forwards, size /= "0" -> route prefix [("max-body", YamlText size)]
      ["deny", "all"] | prefix /= "/" -> route prefix [("respond", YamlText "403")]
      "fastcgi_param" : name : value : _ | Just usual <- lookup name programPaths -> if value `elem` usual then none else untranslated file i
      ["fastcgi_param", name, value] | '$' `notElem` value -> says "program-env" (YamlMap [(name, YamlText value)])
      ["include", path] | "proxy_params" `isSuffixOf` path -> noted file (directiveLine i) "not translated: proxy_set_header X-Real-IP $remote_addr of proxy_params"
      ["include", path] | any (`isSuffixOf` path) ["fastcgi_params", "fastcgi.conf", "fastcgi-php.conf", "scgi_params"] -> none
      "index" : _ | prefix /= "/", forwards || any ((== ["return"]) . take 1 . directiveWords) inner -> none
      _ | prefix == "/" && glob /= prefix -> commonOf around i
      _ -> ruleFor glob i
    fallbackRoute i prefix paths url body =
      let name = '/' : drop 1 (last paths)
       in route prefix [("try-files", texts (init paths)), ("else", YamlText (name ++ "$uri$is_args$args"))] <> proxied outside {aroundHeaders = headersIn (aroundHeaders outside) body} i name (case stripPrefix "http://" url of Just rest | '/' `notElem` rest -> url ++ "/"; _ -> url)
    ruleFor glob i = case directiveWords i of
      ["expires", time] | Just value <- expiresOf time -> says "cache-control" (YamlMap [(glob, YamlText value)])
      "add_header" : "Cache-Control" : value : _ -> says "cache-control" (YamlMap [(glob, YamlText value)])
      "add_header" : name : value : _ | '$' `notElem` value -> says "header" (YamlMap [(glob, YamlMap [(name, YamlText value)])])
      "access_log" : "off" : _ -> noted file (directiveLine i) ("not translated: access_log off; give log-skip: " ++ show glob ++ " at the top of the file")
      _ | isNeedless i -> none
      _ -> untranslated file i

-- What programs get anyway, and how it is written.
programPaths :: [(String, [String])]
programPaths =
  [ ("SCRIPT_FILENAME", ["$document_root$fastcgi_script_name", "$realpath_root$fastcgi_script_name", "$document_root/$fastcgi_script_name", "$request_filename"]),
    ("PATH_INFO", ["$fastcgi_path_info"]),
    ("QUERY_STRING", ["$query_string", "$args"]),
    ("SCRIPT_NAME", ["$fastcgi_script_name"]),
    ("DOCUMENT_ROOT", ["$document_root", "$realpath_root"])
  ]

-- Extensions that an expression such as \.(js|css)$ names.
endingsOf :: String -> Maybe [String]
endingsOf expression = do
  rest <- stripPrefix "\\." expression
  inner <- stripEnd "$" rest
  let choices = case (stripPrefix "(" (maybe inner ('(' :) (stripPrefix "(?:" inner)), last (' ' : inner)) of
        (Just list, ')') -> splitOn '|' (init list)
        _ -> [inner]
  if all plain choices then Just choices else Nothing
  where
    plain choice = not (null choice) && all (\c -> isAlphaNum c || c == '_') choice
    stripEnd end text = if end `isSuffixOf` text then Just (take (length text - length end) text) else Nothing

splitOn :: Char -> String -> [String]
splitOn c text = case break (== c) text of
  (one, _ : rest) -> one : splitOn c rest
  (one, []) -> [one]

-- nginx sends both headers where a block has expires and a Cache-Control of its own.
joinedCache :: [Directive] -> [Directive]
joinedCache block = case [value | Directive _ ["expires", time] _ <- block, Just value <- [expiresOf time]] of
  age : _ | any ((== ["add_header", "Cache-Control"]) . take 2 . directiveWords) block -> concatMap (with age) block
  _ -> block
  where
    with age d = case directiveWords d of
      ["expires", time]
        | all complete [value | "add_header" : "Cache-Control" : value : _ <- map directiveWords block] -> [d {directiveWords = ["expires", time, "(the Cache-Control beside it has a max-age)"]}]
        | otherwise -> []
      "add_header" : "Cache-Control" : value : more -> [d {directiveWords = "add_header" : "Cache-Control" : (if complete value then value else age ++ ", " ++ value) : more}]
      _ -> [d]
    complete = ("max-age" `isInfixOf`)

expiresOf :: String -> Maybe String
expiresOf = \case
  "max" -> Just "max-age=315360000"
  "off" -> Nothing
  "epoch" -> Just "no-cache"
  '-' : _ -> Just "no-cache"
  time -> (\n -> "max-age=" ++ show n) <$> secondsOf time

-- A time such as 30d or 1h.
secondsOf :: String -> Maybe Integer
secondsOf time = case span isDigit time of
  (digits@(_ : _), unit) | Just factor <- lookup unit [("", 1), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("w", 604800), ("M", 2592000), ("y", 31536000)] -> Just (read digits * factor)
  _ -> Nothing

serverText :: String -> String
serverText place = if "unix:" `isPrefixOf` place then place else fromMaybe place (stripPrefix "http://" place)

-- Directives that http, servers and locations for / may have.
commonOf :: Around -> Directive -> Translation
commonOf around d = case directiveWords d of
  ["root", path] -> says "root" (YamlPath path)
  "index" : names -> says "index" (texts names)
  ["autoindex", on] -> yesOf "autoindex" on
  ["keepalive_timeout", time] | Just n <- secondsOf time, n > 0 -> says "idle" (YamlText (show n))
  ["keepalive_timeout", time, _] | Just n <- secondsOf time, n > 0 -> says "idle" (YamlText (show n))
  ["client_max_body_size", size] | size /= "0" -> says "max-body" (YamlText size)
  ["client_header_timeout", time] -> timeOut "head" time
  ["client_body_timeout", time] -> timeOut "body" time
  ["send_timeout", time] -> timeOut "reply" time
  ["proxy_read_timeout", time] | Just n <- secondsOf time -> says "proxy-timeout" (YamlText (show n))
  ["gzip", "on"] -> says "compression" (YamlText "on")
  ["gzip", "off"] -> none
  ["gzip_static", "on"] -> says "compression" (YamlText "static")
  ["access_log", "off"] -> none
  "access_log" : path : format -> says "access-log" (YamlPath path) <> foldMap (\f -> foldMap (says "log-format" . YamlText) (lookup f (("combined", "combined") : aroundFormats around))) (take 1 format)
  "error_log" : path : level -> errorLog path level
  "error_page" : arguments@(_ : _ : _) | all (all isDigit) (init arguments), "/" `isPrefixOf` last arguments -> says "error-page" (YamlMap [(status, YamlText (drop 1 (last arguments))) | status <- init arguments])
  "add_header" : "Strict-Transport-Security" : value : _ | Just n <- maxAge value -> says "hsts" (YamlText n)
  "add_header" : "Cache-Control" : value : _ -> says "cache-control" (YamlMap [("**", YamlText value)])
  "add_header" : name : value : _ | '$' `notElem` value -> says "header" (YamlMap [("**", YamlMap [(name, YamlText value)])])
  ["expires", time] | Just value <- expiresOf time -> says "cache-control" (YamlMap [("**", YamlText value)])
  ["ssl_certificate", path] -> says "tls-cert" (YamlList [YamlPath path])
  ["ssl_certificate_key", path] -> says "tls-key" (YamlList [YamlPath path])
  ["ssl_stapling_file", path] -> says "tls-staple" (YamlList [YamlPath path])
  ["ssl_client_certificate", path] -> if aroundVerifies around then says "tls-client-ca" (YamlPath path) else none
  ["ssl_verify_client", "on"] -> none
  ["ssl_verify_client", "off"] -> none
  ["ssl_verify_client", "optional"] -> says "tls-client-optional" (YamlText "yes")
  "ssl_protocols" : versions | "TLSv1.2" `notElem` versions, "TLSv1.3" `elem` versions -> says "tls-minimum" (YamlText "1.3")
  ["auth_basic_user_file", path] -> says "basic-auth" (YamlPath path)
  ["allow", network] -> says "access" (YamlList [YamlMap [("allow", YamlText network)]])
  ["deny", network] -> says "access" (YamlList [YamlMap [("deny", YamlText network)]])
  ["set_real_ip_from", network] ->
    (if aroundNamesClient around then none else noted (aroundFile around) (directiveLine d) "X-Forwarded-For of these peers is believed, and nginx believes X-Real-IP unless real_ip_header says otherwise")
      <> says "trusted-proxy" (texts [if network == "unix:" then "unix" else network])
  ["disable_symlinks", "off"] -> says "follow-symlinks" (YamlText "yes")
  "limit_req" : arguments | Just zone <- valueOf "zone=" arguments, Just rate <- lookup zone (aroundRates around), Just text <- rateOf rate -> says "rate-limit" (YamlText (text ++ maybe "" (':' :) (valueOf "burst=" arguments)))
  _ | isNeedless d -> none
  _ -> untranslated (aroundFile around) d
  where
    yesOf key on = says key (YamlText (if on == "on" then "yes" else "no"))
    timeOut name time = foldMap (\n -> says "time-outs" (YamlMap [(name, YamlText (show n))])) (secondsOf time)
    maxAge value = case stripPrefix "max-age=" value of
      Just rest | digits@(_ : _) <- takeWhile isDigit rest -> Just digits
      _ -> Nothing
    rateOf rate = case span isDigit rate of
      (digits@(_ : _), "r/s") -> Just (digits ++ "/s")
      (digits@(_ : _), "r/m") -> Just (digits ++ "/m")
      _ -> Nothing
