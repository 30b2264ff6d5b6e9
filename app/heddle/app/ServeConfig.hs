-- |
-- Module      : ServeConfig
-- Description : What heddle serve is told, by its command line and by a file
module ServeConfig
  ( Given (..),
    Act (..),
    Loaded (..),
    loaded,
    mistake,
    nothingAtRoot,
    dumped,
    imported,
    reported,
    refuse,
  )
where

import Data.ByteString qualified as B
import Data.Text.Encoding (encodeUtf8)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (IOException, displayException, try)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Serve (servesAll)
import Heddle.Serve.Config
import System.Directory (getCurrentDirectory)
import System.Exit (ExitCode (..), exitWith)

-- | The command line.
data Given = Given
  { givenDirectory :: !(Maybe FilePath),
    givenFile :: !(Maybe FilePath),
    givenAct :: !Act,
    -- | Open the browser.
    givenOpen :: !Bool,
    -- | Show what the sandbox allows.
    givenSandbox :: !Bool,
    -- | What it says of the keys of a configuration.
    givenConfig :: !Config
  }

-- | What is to be done.
data Act = Serve | Check | Dump | Explain !String | Import !FilePath | Schema

-- | What files and the command line say.
data Loaded = Loaded
  { -- | Where it is reported that something is missing.
    loadedAt :: !Position,
    -- | As 'readFiles'.
    loadedFiles :: ![FilePath],
    -- | As 'readRest'.
    loadedRest :: !(Maybe Config),
    loadedResult :: !(Either [Problem] Config)
  }

-- | Read the file, if there is one, and put the command line over it.
loaded :: Given -> IO Loaded
loaded given = case givenFile given of
  Nothing -> pure (Loaded onCommandLine [] (Just own) (Right own))
  Just file -> do
    ReadConfig result rest files <- readConfig file
    pure (Loaded (Position file 1 1) files (configOver own <$> rest) (configOver own <$> result))
  where
    own = (givenConfig given) {configSite = site {siteRoot = maybe (siteRoot site) (\directory -> Just (Written onCommandLine directory directory)) (givenDirectory given)}}
    site = configSite (givenConfig given)

-- | What is wrong with options together.
mistake :: Config -> Maybe String
mistake config = snd <$> tlsMistake ("--" ++) (serverCertificates server) (serverSelfSigned server) (serverTlsPolicy server)
  where
    server = configServer config

-- | Whether there is neither a directory nor a route for every path.
nothingAtRoot :: Config -> Bool
nothingAtRoot config = null (siteRoot site) && not (any (servesAll . meant . fst) (siteRouting site))
  where
    site = configSite config

-- | Print a configuration.
dumped :: Config -> IO ()
dumped config = do
  here <- getCurrentDirectory
  B.putStr (encodeUtf8 (dumpConfig (if here == "/" then here else here ++ "/") config))

-- | Print a translated configuration, and on standard error what has no counterpart.
imported :: FilePath -> IO ()
imported file =
  try (importFile file) >>= \case
    Left (e :: IOException) -> refuse 1 ("cannot read " ++ file ++ ": " ++ maybe (displayException e) describeErrno (errnoOf e))
    Right (Left problem) -> reported 1 [problem]
    Right (Right translation) -> do
      B.putStr (encodeUtf8 (importedText translation))
      mapM_ (putErrorLine . renderProblem) (importedLeft translation)

-- | Say what is wrong, and end with this code.
reported :: Int -> [Problem] -> IO a
reported code problems = mapM_ (putErrorLine . renderProblem) problems >> exitWith (ExitFailure code)

-- | The same with a message.
refuse :: Int -> String -> IO a
refuse code why = putErrorLine ("heddle serve: " ++ why) >> exitWith (ExitFailure code)
