-- |
-- Module      : Heddle.Serve.Config.NginxProxy
-- Description : Servers behind nginx, and what they are told
-- Stability   : internal, exempt from the version policy
--
-- Our proxy sends the client's Host, or with https:// the server's own name, and X-Forwarded-*; it has no setting for others. nginx sends the
-- server's name if nothing else is said. Where both differ, it is said.
--
-- Cost: O(size).
-- Owner: values.
module Heddle.Serve.Config.NginxProxy
  ( Around (..),
    headersIn,
    isStandardHeader,
    proxied,
  )
where

import Data.Char (toLower)
import Data.List (find, isPrefixOf, isSuffixOf)
import Heddle.Serve.Config.Import
import Heddle.Serve.Config.NginxSyntax
import Heddle.Serve.Config.Yaml

-- | What http, servers and locations have in common to look up.
data Around = Around
  { aroundFile :: !FilePath,
    aroundUpstreams :: ![(String, [Directive])],
    -- | Zones of limit_req, and their rates.
    aroundRates :: ![(String, String)],
    -- | The proxy_set_header directives that count, if a block has none itself.
    aroundHeaders :: ![Directive],
    aroundFormats :: ![(String, String)],
    -- | Whether any server asks clients for certificates.
    aroundVerifies :: !Bool,
    -- | Whether it is said which header names the client.
    aroundNamesClient :: !Bool
  }

-- | The proxy_set_header directives that count in a block: its own, or else those around it. Debian's proxy_params has some.
headersIn :: [Directive] -> [Directive] -> [Directive]
headersIn outer block = if null own then outer else own
  where
    own = concatMap one block
    one d = case directiveWords d of
      "proxy_set_header" : _ -> [d]
      ["include", path] | "proxy_params" `isSuffixOf` path -> [d {directiveWords = ["proxy_set_header", "Host", "$http_host"]}]
      _ -> []

-- | Ask whether the proxy sends this header with this value by itself.
isStandardHeader :: Directive -> Bool
isStandardHeader d = case directiveWords d of
  [_, name, value] | Just values <- lookup (map toLower name) ours -> map toLower value `elem` values
  _ -> False
  where
    ours =
      [ ("host", ["$host", "$http_host", "$proxy_host"]),
        ("x-forwarded-for", ["$proxy_add_x_forwarded_for", "$remote_addr"]),
        ("x-forwarded-proto", ["$scheme"]),
        ("x-forwarded-host", ["$host", "$http_host"]),
        ("upgrade", ["$http_upgrade"]),
        ("connection", ["", "upgrade", "keep-alive", "$connection_upgrade", "$http_connection"])
      ]

-- | Translate proxy_pass for a prefix. nginx passes the whole path on, unless the address has a path itself.
proxied :: Around -> Directive -> String -> String -> Translation
proxied around d prefix url = case [(scheme, drop (length scheme) url) | scheme <- ["http://", "https://"], scheme `isPrefixOf` url] of
  (scheme, rest) : _
    | '$' `notElem` url ->
      let (name, path) = break (== '/') rest
          below
            | null path = if prefix == "/" || "/*" `isPrefixOf` prefix then "" else prefix
            | otherwise = if "/" `isSuffixOf` path then init path else path
          url' server = if "unix:" `isPrefixOf` server then server ++ (if null below then "" else ":" ++ below) else scheme ++ server ++ below
          one = case lookup name (aroundUpstreams around) of
            Nothing -> says' [url' name]
            Just members -> says' [url' server ++ maybe "" ('*' :) (valueOf "weight=" options) | m@(Directive _ ("server" : server : options) _) <- members, not (spare m)] <> foldMap (member . directiveWords) [m | m <- members, take 1 (directiveWords m) /= ["server"]] <> foldMap odd' members
       in one <> hostNote around d (scheme == "https://") (name `elem` map fst (aroundUpstreams around)) name
  _ -> untranslated (aroundFile around) d
  where
    says' servers = says "routes" (YamlMap [(prefix, YamlMap [route servers])])
    route = \case
      -- All of them are down: nginx has no other answer either.
      [] -> ("respond", YamlText "502")
      [one] -> ("proxy", YamlText one)
      several -> ("proxy", texts several)
    member = \case
      ["least_conn"] -> says "proxy-balance" (YamlText "least")
      ["ip_hash"] -> says "proxy-balance" (YamlText "address")
      "keepalive" : _ -> none
      "zone" : _ -> none
      other -> left (aroundFile around) (directiveLine d) (unwords other ++ " of the servers behind")
    -- One that nginx asks only if all others are down, or never.
    spare m = take 1 (directiveWords m) == ["server"] && any (`elem` ["backup", "down"]) (directiveWords m)
    odd' m = if spare m then left (aroundFile around) (directiveLine m) (unwords (directiveWords m)) else none

-- What the server gets as Host, where nginx sends something else. Other values are not translated where they stand.
hostNote :: Around -> Directive -> Bool -> Bool -> String -> Translation
hostNote around d secure group name = case directiveWords <$> given of
  Just [_, _, value]
    | map toLower value `notElem` ["$proxy_host", "$host", "$http_host"] -> none
    | map toLower value /= "$proxy_host" -> if secure then foldMap (\h -> noted (aroundFile around) (directiveLine h) ("not translated: proxy_set_header Host " ++ value ++ "; a server at https:// gets its own name")) given else none
  _
    | secure && not group -> none
    | secure -> said ("each server gets its own name as Host, and from nginx " ++ name)
    | otherwise -> said ("the server gets the client's Host, and from nginx " ++ (if "unix:" `isPrefixOf` name then "localhost" else name))
  where
    given = find ((== ["host"]) . map (map toLower) . take 1 . drop 1 . directiveWords) (aroundHeaders around)
    said what = noted (aroundFile around) (directiveLine d) (what ++ maybe ", since no proxy_set_header Host holds here" (const "") given)
