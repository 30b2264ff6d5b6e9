-- |
-- Module      : Browser
-- Description : Opening an address in the user's browser
module Browser
  ( openBrowser,
  )
where

import Control.Monad (void)
import Data.Foldable (for_)
import Data.List (find, isPrefixOf)
import Heddle.Prim.Exception (trySync)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (fork)
import System.Exit (ExitCode (..))
import System.Process

-- | Open the first of these URLs that a browser understands, by @xdg-open@. What it prints is dropped; a failure
-- is a message.
--
-- [Blocks]: never: a thread waits for the program.
openBrowser :: [String] -> IO ()
openBrowser urls = for_ (find (\url -> any (`isPrefixOf` url) ["http://", "https://"]) urls) $ \url ->
  void . fork "heddle/open" $ do
    -- A session of its own, so that Ctrl-C stops the server and not a browser that it started.
    started <- trySync (createProcess (proc "xdg-open" [url]) {std_in = NoStream, std_out = NoStream, std_err = NoStream, close_fds = True, new_session = True})
    ended <- case started of
      Right (_, _, _, process) -> either (const False) (== ExitSuccess) <$> trySync (waitForProcess process)
      Left _ -> pure False
    if ended then pure () else putErrorLine ("heddle serve: xdg-open could not open a browser; open " ++ url ++ " by hand, or install xdg-utils")
