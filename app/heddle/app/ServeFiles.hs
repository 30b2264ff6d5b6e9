-- |
-- Module      : ServeFiles
-- Description : heddle serve's options for how files are served
module ServeFiles
  ( fileOptions,
  )
where

import Data.ByteString.Char8 qualified as C
import Heddle.Http (Header (..))
import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | Headers, media types, pages, listings, compression, links, passwords.
fileOptions :: Parser (SiteConfig -> SiteConfig)
fileOptions =
  build
    <$> settings "header" parseHeaderRule (metavar "GLOB=NAME:VALUE" <> help "Send a header with replies about paths that match; may be given more than once, and the last one for a header counts; an empty value removes it")
    <*> settings "cache-control" parseCacheRule (metavar "GLOB=VALUE" <> help "The same for Cache-Control, such as '/assets/**=public, max-age=31536000, immutable'")
    <*> yes "security-headers" "Send headers that make browsers more careful, such as X-Content-Type-Options and X-Frame-Options; --header changes single ones"
    <*> settings "cors" parseOrigin (metavar "ORIGIN" <> help "Let pages of this origin read replies; * for all; may be given more than once")
    <*> settings "mime" parseMediaRule (metavar "EXT=TYPE" <> help "The media type of files with this extension; may be given more than once")
    <*> yes "spa" "For a single-page application: answer paths without a file with the root's index, and status 200"
    <*> settings "error-page" parseErrorPage (metavar "STATUS=FILE" <> help "Send this file of DIR with errors of this status, such as 404=404.html; may be given more than once")
    <*> yes "autoindex" "List directories that have no index: a page, or JSON for clients that ask for it"
    <*> word "compression" "a way of compression" compressions (help "static: send FILE.br, FILE.zst or FILE.gz instead of FILE to clients that accept it; on: also compress what has none (default: off)")
    <*> word "etag" "what an ETag is made of" tagParts (help "all: of a file's size, times and inode; mtime-size: of what copies on other machines have in common (default: all)")
    <*> yes "follow-symlinks" "Serve what symbolic links in DIR lead to outside it"
    <*> setting "basic-auth" file (metavar "FILE" <> action "file" <> help "Ask for a name and password; FILE has lines that 'heddle password USER' or 'htpasswd -B' made")
    <*> settings "index" file (metavar "NAME" <> help "Name of a directory's index; may be given more than once (default: index.html, index.htm)")
    <*> yes "hidden" "Serve names that begin with a dot, too"
  where
    build headers caching security origins media fallback pages listings compression tag follow users indexes dotted site =
      site
        { siteHeaders = [(globOf rule, [headerOf' rule]) | rule <- headers],
          siteCaches = [(globOf rule, (headerOf' rule) {writtenText = valueOf rule}) | rule <- caching],
          siteSecurity = security,
          siteCors = origins,
          siteMedia = addedPairs media [],
          siteSpa = fallback,
          siteErrorPages = addedPairs pages [],
          siteAutoindex = listings,
          siteCompression = compression,
          siteTag = tag,
          siteFollow = follow,
          siteUsers = users,
          siteIndex = indexes,
          siteDotted = dotted
        }
    globOf rule = let HeaderRule _ glob _ = meant rule in Written onCommandLine (takeWhile (/= '=') (writtenText rule)) glob
    headerOf' rule = let HeaderRule _ _ line@(Header name value') = meant rule in Written onCommandLine (C.unpack name ++ "=" ++ C.unpack value') line
    valueOf rule = let HeaderRule _ _ (Header _ value') = meant rule in C.unpack value'
