-- |
-- Module      : Heddle.Serve.Config
-- Description : The configuration of a server, in files and on the command line
-- Stability   : stable
--
-- A file is YAML; docs/manual/serve-config.md describes it. Everything that is wrong is reported at once, with file, line and column.
-- The command line makes a 'Config' too, and 'configOver' puts it over that of a file, so both have one vocabulary.
--
-- Cost: reading and checking a file with 1,000 lines takes some milliseconds.
-- Owner: values.
module Heddle.Serve.Config
  ( -- * Reading
    ReadConfig (..),
    readConfig,
    configOver,
    optionsOf,
    ownSite,
    checkConfig,
    checkRest,
    configNotes,

    -- * Problems
    Problem (..),
    Position (..),
    renderProblem,

    -- * Showing
    dumpConfig,
    explain,
    referenceText,
    schemaText,

    -- * Configurations as written
    module Heddle.Serve.Config.Types,
    Written (..),
    onCommandLine,
    argument,
    addedPairs,
    addedRoutes,
    tlsOf,
    tlsMistake,

    -- * Words
    tlsVersions,
    parseSize,
    parseSizeWithin,
    parseDuration,
    parseShare,
    parseBalance,
    parseCheckTarget,
    parseVariable,
    headerOf,
    announces,
    compressions,
    tagParts,
    backends,
    sandboxModes,
    consoleLogs,
    whenFulls,
    severities,

    -- * From other servers
    Imported (..),
    importedText,
    importFile,
  )
where

import Data.ByteString qualified as B
import Data.Text (Text)
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Heddle.Serve.Config.Apply
import Heddle.Serve.Config.Check
import Heddle.Serve.Config.Codec (Codec (..), Written (..), argument, mergeKeys, onCommandLine)
import Heddle.Serve.Config.Decode (decodeRest, inOrder)
import Heddle.Serve.Config.Document
import Heddle.Serve.Config.Explain
import Heddle.Serve.Config.Grammar
import Heddle.Serve.Config.Import
import Heddle.Serve.Config.Include
import Heddle.Serve.Config.Mighttpd
import Heddle.Serve.Config.Nginx
import Heddle.Serve.Config.Notes
import Heddle.Serve.Config.SiteGrammar
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.Config.Yaml
import Heddle.Serve.FileOptions (headerOf)
import System.Directory (doesFileExist)
import System.Environment (getEnvironment)
import System.FilePath (takeDirectory, (</>))

-- | A configuration or everything that is wrong with it.
data ReadConfig = ReadConfig
  { readResult :: !(Either [Problem] Config),
    -- | The configuration without what is wrong with it, whose own mistakes 'checkRest' finds.
    readRest :: !(Maybe Config),
    -- | The files that were read, and the patterns of files that were looked for.
    readFiles :: ![FilePath]
  }

-- | Read a file and what it includes, with the variables of the environment.
--
-- [Blocks]: holds an OS thread while it reads.
readConfig :: FilePath -> IO ReadConfig
readConfig file = do
  variables <- getEnvironment
  ReadTree node unread files <- readTree (\name -> T.pack <$> lookup (T.unpack name) variables) file
  let (wrong, rest) = maybe ([], Nothing) (decodeRest (codecDecoder configCodec)) node
  pure $ case (unread ++ wrong, rest) of
    ([], Just config) -> ReadConfig (Right config) rest files
    (problems, _) -> ReadConfig (Left (inOrder problems)) rest files

-- | The first one counts where both say something; rules by path of both count, the first one's last.
configOver :: Config -> Config -> Config
configOver = mergeKeys configKeys

-- | A configuration as YAML, which 'readConfig' reads back to the same one. The path of a directory, which ends in a slash, is put
-- before relative paths.
--
-- [Cost]: O(size).
dumpConfig :: FilePath -> Config -> Text
dumpConfig directory = renderYaml directory . codecEncode configCodec

-- | Translate a configuration of nginx or Mighttpd; which one it is, its text shows. Of Mighttpd, the file of keys or the file of routes
-- can be given, and the first leads to the second.
--
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: 'IOException' if the file cannot be read.
importFile :: FilePath -> IO (Either Problem Imported)
importFile file = do
  text <- content file
  case () of
    _
      | isNginx text -> pure (importNginx file text)
      | isMighttpdRoutes text -> pure (Right (importMighttpd Nothing (Just (file, text))))
      | not (isMighttpdKeys text) -> pure (Left (Problem (Position file 1 1) "this is no configuration of nginx or Mighttpd, and those of other servers are not translated"))
      | otherwise -> do
        let routes = (takeDirectory file </>) <$> routingFile text
        there <- maybe (pure False) doesFileExist routes
        found <- sequence [(,) name <$> content name | there, Just name <- [routes]]
        let Imported yaml problems = importMighttpd (Just (file, text)) (case found of one : _ -> Just one; [] -> Nothing)
        pure (Right (Imported yaml ([Problem (Position file 1 1) ("the file of routes " ++ name ++ " is not there; translate it itself") | not there, Just name <- [routes]] ++ problems)))
  where
    content name = T.unpack . decodeUtf8With lenientDecode <$> B.readFile name
