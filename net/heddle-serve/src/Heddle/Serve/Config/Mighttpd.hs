-- |
-- Module      : Heddle.Serve.Config.Mighttpd
-- Description : Configurations of Mighttpd 2
-- Stability   : internal, exempt from the version policy
--
-- Mighttpd has a file of keys (mighttpd.conf) and one of routes (mighttpd.route), which the first may name. Its routes are looked up
-- in their order, and so are the translated ones.
--
-- Cost: O(size).
-- Owner: values.
module Heddle.Serve.Config.Mighttpd
  ( importMighttpd,
    routingFile,
    isMighttpdKeys,
    isMighttpdRoutes,
  )
where

import Data.Char (isSpace)
import Data.List (isPrefixOf, isSuffixOf, nub, partition)
import Data.Maybe (fromMaybe)
import Heddle.Serve.Config.Import
import Heddle.Serve.Config.Yaml

-- | Translate a file of keys, and a file of routes, each with its name.
importMighttpd :: Maybe (FilePath, String) -> Maybe (FilePath, String) -> Imported
importMighttpd conf routes = Imported (YamlMap (merged (ours ++ sites))) (problems ++ routeProblems)
  where
    Translation ours problems = foldMap (\(file, text) -> keysOf file (settingsOf text)) conf
    Translation sites routeProblems = foldMap (uncurry routesOf) routes

-- | The file of routes that a file of keys names.
routingFile :: String -> Maybe FilePath
routingFile text = case [value | (_, "Routing_File", value) <- settingsOf text, value `notElem` ["", "NONE"]] of
  value : _ -> Just value
  [] -> Nothing

-- | Test whether a text has a key of Mighttpd.
isMighttpdKeys :: String -> Bool
isMighttpdKeys text = or [key `elem` known | (_, key, _) <- settingsOf text]
  where
    known = silent ++ ["User", "Pid_File", "Index_File", "Connection_Timeout", "Index_Cgi", "Status_File_Dir", "Server_Name"]

-- | Test whether a text has a route as Mighttpd writes it.
isMighttpdRoutes :: String -> Bool
isMighttpdRoutes text = or [operator `elem` ["->", "=>", ">>", "<<"] | line <- lines text, ['/' : _, operator, _] <- [words (withoutComment line)]]

-- Keys that are translated together with others, or need no translation.
silent :: [String]
silent = ["Port", "Host", "Group", "Service", "Tls_Port", "Logging", "Log_File", "Log_File_Size", "Log_Backup_Number", "Routing_File", "Debug_Mode", "Fd_Cache_Duration", "Tls_Cert_File", "Tls_Key_File", "Tls_Chain_Files", "Report_File"]

-- Lines, keys and values.
settingsOf :: String -> [(Int, String, String)]
settingsOf text = [(line, trim key, trim (drop 1 value)) | (line, content) <- zip [1 ..] (lines text), (key, value@(_ : _)) <- [break (== ':') (withoutComment content)], not (all isSpace key)]

withoutComment :: String -> String
withoutComment = takeWhile (/= '#')

trim :: String -> String
trim = ends . ends
  where
    ends = reverse . dropWhile isSpace

keysOf :: FilePath -> [(Int, String, String)] -> Translation
keysOf file given = listening <> foldMap one given
  where
    value key = case [v | (_, k, v) <- given, k == key] of
      v : _ -> Just v
      [] -> Nothing
    host = case value "Host" of
      Just h | h `notElem` ["*", ""] -> if ':' `elem` h then "[" ++ h ++ "]" else h
      _ -> ""
    service = fromMaybe "0" (value "Service")
    listening = says "listen" (texts ([host ++ ":" ++ fromMaybe "80" (value "Port") | service /= "1"] ++ ["https://" ++ host ++ ":" ++ fromMaybe "443" (value "Tls_Port") | service `elem` ["1", "2"]]))
    logging = value "Logging" /= Just "No"
    tls = service `elem` ["1", "2"]
    one (line, key, v) = case key of
      "User" | v == "root" -> none
      "User" -> says "user" (YamlText (v ++ maybe "" (\g -> if g == "root" then "" else ':' : g) (value "Group")))
      "Pid_File" -> says "pid-file" (YamlPath v)
      "Log_File" | logging -> says "access-log" (YamlPath v)
      "Log_File_Size" | logging -> says "log-rotate" (YamlText v)
      "Log_Backup_Number" | logging -> says "log-keep" (YamlText v)
      "Index_File" -> says "index" (texts [v])
      "Connection_Timeout" -> says "idle" (YamlText v)
      "Tls_Cert_File" | tls -> says "tls-cert" (YamlList [YamlPath v])
      "Tls_Key_File" | tls -> says "tls-key" (YamlList [YamlPath v])
      "Tls_Chain_Files" | tls, not (null v) -> left file line (key ++ ": put the chain into the file of tls-cert, after the certificate")
      "Index_Cgi" -> left file line (key ++ ": a directory's index may be a program if a route such as /*.cgi answers for it")
      "Status_File_Dir" -> left file line (key ++ ": pages for errors are given by error-page")
      "Server_Name" -> left file line (key ++ ": give header: {\"**\": {Server: ...}}")
      "Debug_Mode" | v == "Yes" -> left file line (key ++ ": see log: pretty")
      _ | key `elem` silent -> none
      _ -> left file line key

-- Routes before the first list of names are for every host.
routesOf :: FilePath -> String -> Translation
routesOf file text = Translation own ownProblems <> unknown <> Translation [("hosts", YamlList [YamlMap keys | (_, keys) <- ordered]) | not (null blocks)] (concatMap fst blocks)
  where
    numbered = [(line, trim (withoutComment content)) | (line, content) <- zip [1 :: Int ..] (lines text)]
    (top, rest) = break (isHeading . snd) numbered
    Translation own ownProblems = siteOf file top
    blocks = [(problems, [("names", texts names) | not (null names)] ++ keys) | ((_, heading), body) <- groups rest, let Translation keys problems = siteOf file body, let names = nub (filter (/= "*") (words (filter (`notElem` "[]") heading)))]
    -- A list of names that is * alone is for all others, and such a host stands first.
    ordered = let (nameless, named) = partition ((/= ["names"]) . take 1 . map fst . snd) blocks in nameless ++ named
    groups = \case
      heading : others -> let (body, more) = break (isHeading . snd) others in (heading, body) : groups more
      [] -> []
    isHeading = isPrefixOf "["
    -- Mighttpd answers 404 there.
    unknown = if null own && not (null blocks) && all ((== ["names"]) . take 1 . map fst . snd) blocks then says "unknown-host" (YamlText "421") else none

siteOf :: FilePath -> [(Int, String)] -> Translation
siteOf file entries = Translation (merged ([("route-order", YamlText "written") | any ((== "routes") . fst) keys] ++ keys)) problems
  where
    Translation keys problems = foldMap entry [e | e@(_, content) <- entries, not (null content)]
    entry (line, content) = case words content of
      [path, "->", directory]
        | path == "/" -> says "root" (YamlPath (bare directory))
        | otherwise -> route path [("files", YamlPath (bare directory))]
      [path, "=>", directory] -> route path [("cgi", YamlPath (bare directory))]
      [path, ">>", server] -> route path [("proxy", YamlText ("http://" ++ address server))]
      [path, "<<", target] -> route path [("redirect", YamlText (target ++ (if "/" `isSuffixOf` target then "$rest" else ""))), ("status", YamlText "302")]
      _ -> left file line content
    route path kind = says "routes" (YamlMap [(path, YamlMap kind)])
    bare directory = if length directory > 1 && "/" `isSuffixOf` directory then init directory else directory
    address server = case server of
      ':' : _ -> "127.0.0.1" ++ server
      _ -> server
