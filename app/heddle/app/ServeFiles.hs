-- |
-- Module      : ServeFiles
-- Description : heddle serve's options for how files are served
module ServeFiles
  ( fileOptions,
  )
where

import Heddle.Serve
import Options.Applicative

-- | Headers, media types, pages, listings, compression, links, passwords.
fileOptions :: Parser FileOptions
fileOptions =
  build
    <$> many
      ( option
          (eitherReader parseHeaderRule)
          (long "header" <> metavar "GLOB=NAME:VALUE" <> help "Send a header with replies about paths that match; may be given more than once, and the last one for a header counts; an empty value removes it")
      )
    <*> many
      ( option
          (eitherReader parseCacheRule)
          (long "cache-control" <> metavar "GLOB=VALUE" <> help "The same for Cache-Control, such as '/assets/**=public, max-age=31536000, immutable'")
      )
    <*> switch (long "security-headers" <> help "Send headers that make browsers more careful, such as X-Content-Type-Options and X-Frame-Options; --header changes single ones")
    <*> many
      ( option
          (eitherReader parseOrigin)
          (long "cors" <> metavar "ORIGIN" <> help "Let pages of this origin read replies; * for all; may be given more than once")
      )
    <*> many
      ( option
          (eitherReader parseMediaRule)
          (long "mime" <> metavar "EXT=TYPE" <> help "The media type of files with this extension; may be given more than once")
      )
    <*> switch (long "spa" <> help "For a single-page application: answer paths without a file with the root's index, and status 200")
    <*> many
      ( option
          (eitherReader parseErrorPage)
          (long "error-page" <> metavar "STATUS=FILE" <> help "Send this file of DIR with errors of this status, such as 404=404.html; may be given more than once")
      )
    <*> switch (long "autoindex" <> help "List directories that have no index: a page, or JSON for clients that ask for it")
    <*> option
      (eitherReader parseCompression)
      (long "compression" <> metavar "off|static|on" <> completeWith ["off", "static", "on"] <> value (fileCompression defaultFileOptions) <> showDefaultWith name <> help "static: send FILE.br, FILE.zst or FILE.gz instead of FILE to clients that accept it; on: also compress what has none")
    <*> switch (long "follow-symlinks" <> help "Serve what symbolic links in DIR lead to outside it")
    <*> optional (strOption (long "basic-auth" <> metavar "FILE" <> action "file" <> help "Ask for a name and password; FILE has lines that 'heddle password USER' or 'htpasswd -B' made"))
  where
    build headers caching security origins media fallback pages listings compression follow users =
      defaultFileOptions
        { fileHeaderRules = (if security then securityRules else []) ++ caching ++ headers,
          fileOrigins = origins,
          fileMedia = media,
          fileFallback = fallback,
          fileErrorPages = pages,
          fileListings = listings,
          fileCompression = compression,
          fileFollow = follow,
          fileUsers = users
        }
    name = \case
      CompressionOff -> "off"
      CompressionStatic -> "static"
      CompressionOn -> "on"
